// The gradients of segment_reduce and unsorted_segment_reduce.
#include "rows/member_rules.h"
#include "rows/segments.h"

namespace gradplan::rows {
namespace {

// set(rule, operands) says where the tables of a rule are.
template <template <class> class R, class Set>
BoundKernel bind_rule(const Problem& problem, const Set& set) {
  const int dx = problem.at("d_input");
  const Shape& rows = problem.shape[dx];
  const IndexRule rule = index_rule(problem, "segment_ids", "d_output");
  const SegmentMembers members{.ids = problem.at("segment_ids"),
                               .members = rows[0],
                               .rows = rule.range.rows,
                               .width = rows[1],
                               .element = problem.element(),
                               .rule = rule,
                               .sorted = problem.has("sorted")};
  return bind_members<R>(members, dx, [=](const Operand* t, auto* tag) {
    R<std::remove_pointer_t<decltype(tag)>> made;
    made.out.t = &t[dx];
    set(made, t);
    return made;
  });
}

}  // namespace

BoundKernel bind_segment_reduce_backward(const Problem& problem) {
  const std::string& kind = problem.text("kind");
  const int dy = problem.at("d_output"), x = problem.at("input"), y = problem.at("output");
  if (kind == "mean")
    return bind_rule<MeanBackward>(problem, [=](auto& r, const Operand* t) { r.dy.t = &t[dy]; });
  if (kind == "prod")
    return bind_rule<ProductBackward>(problem, [=](auto& r, const Operand* t) {
      r.dy.t = &t[dy];
      r.x.t = &t[x];
    });
  const auto all = [=](auto& r, const Operand* t) {
    r.dy.t = &t[dy];
    r.x.t = &t[x];
    r.y.t = &t[y];
  };
  if (kind == "logsumexp") return bind_rule<LogSumExpBackward>(problem, all);
  const std::string& ties = problem.text("ties");
  if (ties == "share") return bind_rule<SharedExtreme>(problem, all);
  return ties == "first" ? bind_rule<FirstExtreme>(problem, all)
                         : bind_rule<LastExtreme>(problem, all);
}

namespace {

const Registration backward({.name = "segment_reduce_backward",
                             .tensors = {"d_output", "input", "output", "segment_ids", "d_input"},
                             .attributes = {{"kind", {"mean", "max", "min", "prod", "logsumexp"}},
                                            {"ties", {"first", "last", "share"}},
                                            {"bounds", kBounds}},
                             .elements = kFloats,
                             .bind = bind_segment_reduce_backward});

}  // namespace
}  // namespace gradplan::rows
