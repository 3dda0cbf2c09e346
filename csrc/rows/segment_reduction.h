// Rows reduced by index: segment sums, means, products and extremes and embedding_backward are this
// function.
#pragma once

#include <functional>

#include "rows/index_check.h"
#include "rows/row_reduction.h"

namespace gradplan::rows {

// One reducer for all element types; see row_sums.cc.
struct RowReducers {
  // See make_row_reduction.
  std::function<std::unique_ptr<RowReduction>(
      const Operand& input, int64_t rows, const Operand& output, bool accumulate, char* partial)>
      rows;
  // Single elements, without sorting; rows that are `padding` stay as they are.
  std::function<void(const Operand& input, const Operand& ids, int64_t padding,
                     const Operand& output, bool accumulate, char* workspace)>
      scalars;
  int64_t (*scalar_workspace)(Dtype element, int64_t rows);
};

RowReducers row_sums();
RowReducers row_means();
RowReducers row_products();
RowReducers row_maxima(double fill);  // what an empty row is
RowReducers row_minima(double fill);

struct SegmentReduction {
  int values, ids, results;  // operand positions: [N, D], [N], [S, D]
  IndexRule rule;
  RowReducers reducers;
  bool sorted = false;      // the caller says so; checked
  bool accumulate = false;  // combine with what `results` holds
};

BoundKernel bind_segment_reduction(const Problem& problem, SegmentReduction op);

}  // namespace gradplan::rows
