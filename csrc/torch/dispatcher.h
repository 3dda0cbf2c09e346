// Whether PyTorch's dispatcher would do more than run the kernel: for a subclass, a mode, a
// transform, tracing, forward mode, a profiler, a view with its sign turned, a gradient.
#pragma once
#include "objects.h"

namespace gradplan {

struct Dispatcher {
  struct Variable {
    Ref dictionary, name, idle;  // the variable has the value `idle` if nothing is going on
  };

  struct Question {
    Ref function;      // without arguments
    PyCFunction in_c;  // the same without Python's call in between, or nullptr

    static Question of(PyObject* function);
    bool is_denied() const;
  };

  std::vector<Ref> plain_types;     // of tensors that are no more than they seem
  std::vector<Question> questions;  // is something going on?
  std::vector<Variable> variables;
  Question is_negated;  // a tensor's method
  Question records;     // are gradients recorded?

  static bool parse(PyObject* described, Dispatcher& dispatcher);

  // An error counts as a yes: the dispatcher will say what is wrong.
  bool would_notice(PyObject* const* tensors, int count, const std::vector<int>& floats) const;
  // How many of the `floats` are to be recorded: up to the last one that needs a gradient.
  int recorded(PyObject* const* tensors, const std::vector<int>& floats) const;

 private:
  Ref requires_grad_;  // the name
};

}  // namespace gradplan
