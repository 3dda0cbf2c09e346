// What the forward and the backward scans share.
#pragma once

#include <string>
#include <utility>

#include "ffi/kernel.h"

namespace gradplan::scan {
using namespace ffi;

// A tensor without dimensions is one row of one element.
inline std::pair<int64_t, int64_t> rows_and_length(const Shape& shape, int axis) {
  int64_t rows = 1, n = 1;
  for (int d = 0; d < int(shape.size()); ++d) (d == axis ? n : rows) *= shape[d];
  return {rows, n};
}

// cumsum, cumprod, cummax or cummin (`kind`) of tensors of one element type. Apart from the other
// scans: it is compiled once, and by itself.
BoundKernel bind_prefix_scan(const std::string& kind, Dtype element, const Shape& shape, int axis,
                             bool reverse, int x, int y, int carry = -1);

// What rows add to c3, gains of 1 and (if there are any) exponents of 0.
BoundKernel bind_prefix_totals(const std::string& kind, Dtype element, const Shape& shape, int axis,
                               bool reverse, int x, int total, int gain, int exponent = -1);

BoundKernel bind_scan_backward(const Problem& problem);

}  // namespace gradplan::scan
