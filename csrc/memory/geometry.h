// Tensors of one shape as rows along an axis.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "ffi/tensor.h"
#include "memory/dimensions.h"

namespace gradplan::memory {

// The layout alone, whatever the elements are; up to kMostOperands tensors, the output last.
struct Layout {
  int operands = 0;
  int64_t rows = 1, n = 1;
  Offsets step{};   // from one position of the axis to the next
  Offsets start{};  // of position 0 of row 0
  Dimensions outer;

  Layout() = default;
  // `reverse`: position 0 is the end of the axis.
  GP_SHARED Layout(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse);

  Offsets row_offsets(int64_t row) const {
    if (outer.extent.size() > 1) return outer.offsets(row);
    Offsets at{};
    if (!outer.extent.empty())
      for (int k = 0; k < kMostOperands; ++k) at[k] = row * outer.stride[0][k];
    return at;
  }
};

template <class E>
struct Geometry : Layout {
  E* base[kMostOperands] = {};  // position 0 of the scan in row 0

  Geometry() = default;
  Geometry(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse)
      : Layout(tensors, axis, reverse) {
    int k = 0;
    for (const ffi::Operand* t : tensors) {
      base[k] = t->template as<E>() + start[k];
      ++k;
    }
  }

  // Some of the operands alone: `count` of them from `first` on.
  Geometry only(int count, int first = 0) const {
    Geometry r = *this;
    r.operands = count;
    for (int k = 0; k < kMostOperands; ++k) {
      const bool has = k < count;
      r.base[k] = has ? base[first + k] : nullptr;
      r.step[k] = has ? step[first + k] : 0;
      for (size_t d = 0; d < outer.stride.size(); ++d)
        r.outer.stride[d][k] = has ? outer.stride[d][first + k] : 0;
    }
    return r;
  }

  int64_t bytes() const { return rows * n * int64_t(sizeof(E)); }
};

}  // namespace gradplan::memory
