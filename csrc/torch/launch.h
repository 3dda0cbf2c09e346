// A kernel as a function of PyTorch's tensors that gives new ones.
#pragma once
#include <tvm/ffi/c_api.h>

#include "tensors.h"

namespace gradplan {

constexpr int kMaxTensors = 8;

struct Output {
  Ref arguments;  // of `allocate`, for a contiguous one; None if that is not for small memory
  Ref make;       // a function of the inputs, for any other
  int like;       // the input whose strides it gets, or -1
};

struct Launch {
  static constexpr const char* kName = "gradplan.torch.launch";

  TVMFFIObjectHandle kernel;
  Ref kernel_owner;
  bool release_lock;
  std::vector<Output> outputs;
  Ref options;  // what the gradient has to know

  // In a capsule: (kernel, its handle, release_lock, outputs, options).
  static Ref parse(PyObject* described, int inputs, int outputs);
  static const Launch* in(const Ref& capsule) {  // or nullptr, if it is something else
    const bool is = capsule && PyCapsule_IsValid(capsule.get(), kName);
    return is ? static_cast<const Launch*>(PyCapsule_GetPointer(capsule.get(), kName)) : nullptr;
  }

  enum class Outcome { kDone, kRefused, kError };

  // `seen` are the inputs as the kernel sees them, with room for the outputs. An output whose flag
  // in `wanted` (or nullptr) is False may be None.
  Outcome run(const Tensors& tensors, PyObject* allocate, PyObject* const* inputs, int count,
              DLTensor* seen, PyObject* const* wanted, Ref& results) const;
};

}  // namespace gradplan
