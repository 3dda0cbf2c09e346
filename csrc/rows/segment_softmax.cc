// segment_softmax and unsorted_segment_softmax, of both kinds, and their gradient.
#include "rows/member_rules.h"
#include "rows/segments.h"

namespace gradplan::rows {
namespace {

SegmentMembers members_of(const Problem& problem, bool sorted) {
  const Shape& rows = problem.shape[problem.at("output")];
  IndexRule rule = index_rule(problem, "segment_ids", "output");
  rule.range.rows = problem.integer("num_segments");
  return {.ids = problem.at("segment_ids"),
          .members = rows[0],
          .rows = rule.range.rows,
          .width = rows[1],
          .element = problem.element(),
          .rule = rule,
          .sorted = sorted};
}

template <template <class> class R>
BoundKernel bind_forward_of(const Problem& problem, bool sorted) {
  const int x = problem.at("input"), y = problem.at("output");
  return bind_members<R>(members_of(problem, sorted), y, [=](const Operand* t, auto* tag) {
    R<std::remove_pointer_t<decltype(tag)>> rule;
    rule.x.t = &t[x];
    rule.out.t = &t[y];
    return rule;
  });
}

template <template <class> class R>
BoundKernel bind_backward_of(const Problem& problem) {
  const int dy = problem.at("d_output"), y = problem.at("output"), dx = problem.at("d_input");
  return bind_members<R>(members_of(problem, problem.has("sorted")), dx,
                         [=](const Operand* t, auto* tag) {
                           R<std::remove_pointer_t<decltype(tag)>> rule;
                           rule.dy.t = &t[dy];
                           rule.y.t = &t[y];
                           rule.out.t = &t[dx];
                           return rule;
                         });
}

}  // namespace

BoundKernel bind_segment_softmax(const Problem& problem, bool sorted) {
  return problem.text("kind") == "softmax" ? bind_forward_of<Softmax>(problem, sorted)
                                           : bind_forward_of<LogSoftmax>(problem, sorted);
}

BoundKernel bind_segment_softmax_backward(const Problem& problem) {
  return problem.text("kind") == "softmax" ? bind_backward_of<SoftmaxBackward>(problem)
                                           : bind_backward_of<LogSoftmaxBackward>(problem);
}

namespace {

const std::vector<Attribute> kAttributes = {
    {"kind", {"softmax", "log_softmax"}}, {"num_segments"}, {"bounds", kBounds}};
const Registration sorted({.name = "segment_softmax",
                           .tensors = {"input", "segment_ids", "output"},
                           .attributes = kAttributes,
                           .elements = kFloats,
                           .bind = [](const Problem& p) { return bind_segment_softmax(p, true); }});
const Registration unsorted({.name = "unsorted_segment_softmax",
                             .tensors = {"input", "segment_ids", "output"},
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = [](const Problem& p) {
                               return bind_segment_softmax(p, false);
                             }});
const Registration backward({.name = "segment_softmax_backward",
                             .tensors = {"d_output", "output", "segment_ids", "d_input"},
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = bind_segment_softmax_backward});

}  // namespace
}  // namespace gradplan::rows
