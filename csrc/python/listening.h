// Whether PyTorch's dispatcher would notice anything about a call: a subclass, a mode, a transform,
// tracing, forward mode, a view with its sign turned. If not, the call may go past it.
#pragma once
#include <vector>

#include "objects.h"

namespace gradplan {

struct Question {
  Ref function;      // of nothing, or a method of tensors
  PyCFunction in_c;  // the same without Python's call in between, or nullptr
};

struct Listening {
  static constexpr const char* kName = "gradplan.torch.quiet";

  std::vector<Ref> plain_types;     // of tensors that are no more than they seem
  std::vector<int> floats;          // which of the tensors are not indices, in ascending order
  std::vector<Question> questions;  // yes if something is around
  Question is_negated;              // of a tensor
  Ref variables, level;             // a dictionary, and the name in it of what is -1 outside of
                                    // forward mode

  // An error counts as a yes: the dispatcher will say what is wrong.
  bool anybody(PyObject* const* tensors, int count) const;
};

}  // namespace gradplan
