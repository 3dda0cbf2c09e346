// Sums of rows by index: segment_sum, unsorted_segment_sum and embedding_backward are this
// function.
#pragma once

#include "ffi/tensor.h"
#include "rows/index_check.h"

namespace gradplan::rows {

struct SegmentSum {
  int values, ids, sums;  // operand positions: [N, D], [N], [S, D]
  IndexRule rule;
  bool sorted = false;      // the caller says so; checked
  bool accumulate = false;  // add to what `sums` holds
};

BoundKernel bind_segment_sum(const Problem& problem, SegmentSum op);

}  // namespace gradplan::rows
