// Tensors of one shape as rows along an axis.
#pragma once

#include <initializer_list>

#include "ffi/tensor.h"
#include "memory/dimensions.h"

namespace gradplan::memory {

// Up to kMostOperands of them, the output last. Mostly of one element type, the first one's;
// strides count each tensor's own elements.
struct RowTensors {
  int operands = 0;
  ffi::Dtype dtype;
  int64_t rows = 1, n = 1;
  void* data[kMostOperands] = {};  // position 0 of row 0
  Offsets step{};                  // from one position of the axis to the next
  Dimensions outer;

  // `reverse`: position 0 is the end of the axis.
  GP_SHARED RowTensors(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse);

  // Some of the operands alone: `count` of them from `first` on.
  GP_SHARED RowTensors only(int count, int first = 0) const;

  Offsets row_offsets(int64_t row) const {
    if (outer.extent.size() > 1) return outer.offsets(row);
    Offsets at{};
    if (!outer.extent.empty())
      for (int k = 0; k < kMostOperands; ++k) at[k] = row * outer.stride[0][k];
    return at;
  }
  int64_t item() const { return item_size(dtype); }
  int64_t bytes() const { return rows * n * item(); }  // of one operand
  int64_t moved() const { return operands * bytes(); }
};

// The same, where the element type is known.
template <class E>
struct Geometry : RowTensors {
  E* base[kMostOperands];

  Geometry(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse)
      : RowTensors(tensors, axis, reverse) {
    for (int k = 0; k < kMostOperands; ++k) base[k] = static_cast<E*>(data[k]);
  }
};

}  // namespace gradplan::memory
