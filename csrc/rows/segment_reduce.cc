// segment_reduce and unsorted_segment_reduce: means, extremes, products and log-sum-exps.
#include "rows/member_rules.h"
#include "rows/segment_reduction.h"
#include "rows/segments.h"

namespace gradplan::rows {
namespace {

const std::vector<std::string> kKinds = {"mean", "max", "min", "prod", "logsumexp"};

RowReducers reducers_of(const std::string& kind, double fill) {
  if (kind == "mean") return row_means();
  if (kind == "prod") return row_products();
  return kind == "max" ? row_maxima(fill) : row_minima(fill);
}

}  // namespace

BoundKernel bind_segment_reduce(const Problem& problem, bool sorted) {
  const int x = problem.at("input"), y = problem.at("output");
  const IndexRule rule = index_rule(problem, "segment_ids", "output");
  const double fill = problem.real("fill");
  const std::string& kind = problem.text("kind");
  if (kind != "logsumexp")
    return bind_segment_reduction(problem, {.values = x,
                                            .ids = problem.at("segment_ids"),
                                            .results = y,
                                            .rule = rule,
                                            .reducers = reducers_of(kind, fill),
                                            .sorted = sorted});
  const SegmentMembers members{.ids = problem.at("segment_ids"),
                               .members = problem.shape[x][0],
                               .rows = rule.range.rows,
                               .width = problem.shape[x][1],
                               .element = problem.element(),
                               .rule = rule,
                               .sorted = sorted};
  return bind_members<LogSumExp>(members, y, [=](const Operand* t, auto* tag) {
    using C = std::remove_pointer_t<decltype(tag)>;
    LogSumExp<C> made;
    made.x.t = &t[x];
    made.out.t = &t[y];
    made.fill = C(fill);
    return made;
  });
}

namespace {

const std::vector<Attribute> kAttributes = {{"kind", kKinds}, {"fill"}, {"bounds", kBounds}};
const Registration sorted({.name = "segment_reduce",
                           .tensors = {"input", "segment_ids", "output"},
                           .attributes = kAttributes,
                           .elements = kFloats,
                           .bind = [](const Problem& p) { return bind_segment_reduce(p, true); }});
const Registration unsorted({.name = "unsorted_segment_reduce",
                             .tensors = {"input", "segment_ids", "output"},
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = [](const Problem& p) {
                               return bind_segment_reduce(p, false);
                             }});

}  // namespace
}  // namespace gradplan::rows
