// From the element type of a tensor to the one of a template.
#pragma once

#include "ffi/error.h"
#include "ffi/tensor.h"
#include "lanes/elements.h"

namespace gradplan::lanes {

// Calls f with a null pointer of the element type.
template <class F>
decltype(auto) visit_element(ffi::Dtype d, F&& f) {
  switch (d) {
    case ffi::Dtype::kF16: return f(static_cast<F16*>(nullptr));
    case ffi::Dtype::kBF16: return f(static_cast<BF16*>(nullptr));
    case ffi::Dtype::kF32: return f(static_cast<float*>(nullptr));
    case ffi::Dtype::kF64: return f(static_cast<double*>(nullptr));
    default: throw ffi::PlanError("KernelError", "not a floating-point element type");
  }
}

// Calls f with a null pointer of the type that the element type computes in.
template <class F>
decltype(auto) visit_compute(ffi::Dtype d, F&& f) {
  if (d == ffi::Dtype::kF64) return f(static_cast<double*>(nullptr));
  return f(static_cast<float*>(nullptr));
}

template <class F>
decltype(auto) visit_index(ffi::Dtype d, F&& f) {
  if (d == ffi::Dtype::kI32) return f(static_cast<int32_t*>(nullptr));
  if (d == ffi::Dtype::kI64) return f(static_cast<int64_t*>(nullptr));
  throw ffi::PlanError("KernelError", "not an index type");
}

}  // namespace gradplan::lanes
