// The kernels of one reducer.
#pragma once

#include "rows/reducers.h"
#include "rows/row_reduction_of.h"
#include "rows/scalar_reduction.h"
#include "rows/segment_reduction.h"

namespace gradplan::rows {

template <class Reducer>
RowReducers row_reducers(const Reducer& reducer = {}) {
  const auto rows = [reducer](const Operand& input, int64_t count, const Operand& output,
                              bool accumulate, char* partial) {
    return make_row_reduction(reducer, input, count, output, accumulate, partial);
  };
  const auto scalars = [reducer](const Operand& input, const Operand& ids, int64_t padding,
                                 const Operand& output, bool accumulate, char* workspace) {
    visit_element(input.dtype, [&](auto* e) {
      using E = std::remove_pointer_t<decltype(e)>;
      const ScalarReduction<ComputeOf<E>, Reducer> of(reducer, workspace, output.shape[0]);
      visit_index(ids.dtype, [&](auto* i) {
        const IndexView<std::remove_pointer_t<decltype(i)>> view(ids);
        of.template run<E>(input, view, padding, output, accumulate);
      });
    });
  };
  const auto scalar_workspace = [](Dtype element, int64_t count) {
    return element == Dtype::kF64 ? ScalarReduction<double, Reducer>::workspace_size(count)
                                  : ScalarReduction<float, Reducer>::workspace_size(count);
  };
  return {rows, scalars, scalar_workspace};
}

}  // namespace gradplan::rows
