// scatter_add, index_add, and the gradients that are the same: sums by index along an axis.
#include "gather/row_problem.h"
#include "gather/scatter_lines.h"
#include "rows/reducers.h"
#include "rows/segment_reduction.h"

namespace gradplan::gather {
namespace {

void add_lines(const AxisProblem& p, const LineParts& parts, const Operand* t, char* workspace) {
  visit_element(p.element, [&](auto* element) {
    using E = std::remove_pointer_t<decltype(element)>;
    visit_index(t[p.ids].dtype, [&](auto* index) {
      using I = std::remove_pointer_t<decltype(index)>;
      const LineReduction<E, I, rows::Reducer<Sum>> reduction(p, parts, t);
      reduction.run(workspace, [](auto total, int64_t count, int64_t) {
        return count == 0 ? decltype(total)(0) : total;
      });
    });
  });
}

void zero(const Operand& t) {
  Dimensions all;
  for (int d = 0; d < t.rank; ++d) all.add(t.shape[d], Offsets{t.stride[d]});
  visit_element(t.dtype, [&](auto* element) {
    using E = std::remove_pointer_t<decltype(element)>;
    const int64_t count = all.count();
    for (int64_t i = 0; i < count; ++i)
      store_element(t.as<E>() + all.offsets(i)[0], ComputeOf<E>(0));
  });
}

BoundKernel bind_add(const Problem& problem, const std::string& members, const std::string& table,
                     bool shared) {
  AxisProblem p(problem, members, table);
  p.shared = shared;
  const RowProblem as_rows(p);
  const BoundKernel rows =
      rows::bind_segment_reduction(as_rows.problem(problem), {.values = p.members,
                                                              .ids = p.ids,
                                                              .results = p.table,
                                                              .rule = as_rows.rule(p),
                                                              .reducers = rows::row_sums()});
  const LineParts parts(p);
  return {[=](const Operand* t, char* workspace) {
            check_indices(p, t[p.ids]);
            if (p.n == 0) return zero(t[p.table]);
            if (p.size == 0 || p.lines() == 0 || as_rows.run(p, t, workspace, rows)) return;
            add_lines(p, parts, t, workspace);
          },
          std::max(rows.workspace_size, parts.bytes())};
}

const Registration scatter_add({.name = "scatter_add",
                                .tensors = {"x", "indices", "output"},
                                .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                .elements = kFloats,
                                .bind = [](const Problem& p) {
                                  return bind_add(p, "x", "output", false);
                                }});
const Registration gather_backward({.name = "gather_backward",
                                    .tensors = {"d_output", "indices", "dx"},
                                    .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                    .elements = kFloats,
                                    .bind = [](const Problem& p) {
                                      return bind_add(p, "d_output", "dx", false);
                                    }});
const Registration index_add({.name = "index_add",
                              .tensors = {"x", "indices", "output"},
                              .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                              .elements = kFloats,
                              .bind = [](const Problem& p) {
                                return bind_add(p, "x", "output", true);
                              }});
const Registration index_select_backward({.name = "index_select_backward",
                                          .tensors = {"d_output", "indices", "dx"},
                                          .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                          .elements = kFloats,
                                          .bind = [](const Problem& p) {
                                            return bind_add(p, "d_output", "dx", true);
                                          }});

}  // namespace
}  // namespace gradplan::gather
