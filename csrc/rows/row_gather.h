// Rows copied by index: embedding and segment_sum_backward are this function.
#pragma once

#include "ffi/tensor.h"
#include "rows/index_check.h"

namespace gradplan::rows {

struct RowGather {
  int table, ids, rows;  // operand positions: [S, D], [N], [N, D]
  IndexRule rule;        // rows that it does not select are zero
};

BoundKernel bind_row_gather(const Problem& problem, RowGather op);

}  // namespace gradplan::rows
