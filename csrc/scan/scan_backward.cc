// Scans backward. Position 0 of every sweep is the end of the forward scan.
#include "lanes/visit.h"
#include "scan/linear_recurrence.h"
#include "scan/log_backward.h"
#include "scan/record_scan.h"
#include "scan/scan.h"

namespace gradplan::scan {
BoundKernel bind_scan_backward(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const bool last = problem.text("ties") == "last";
  const Shape shape = problem.shape[0];
  const auto [rows, n] = rows_and_length(shape, axis);
  const int dy = problem.at("dy"), x = problem.at("x"), y = problem.at("y"), dx = problem.at("dx");
  if (kind == "cumsum")
    return bind_prefix_scan(kind, problem.element(), shape, axis, !reverse, dy, dx);
  return visit_compute(problem.element(), [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    const Cut cut = Cut::of(rows, n);
    const auto recurrence = [&](auto policy, int second, int third) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RecurrenceCarries<C> carries(workspace, cut);
                const RowTensors tensors({&t[dy], &t[second], &t[third], &t[dx]}, axis, !reverse);
                run_recurrence(policy, tensors, cut, &carries);
              },
              recurrence_workspace<C>(cut)};
    };
    const auto records = [&](auto op) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RowTensors tensors({&t[x], &t[dy], &t[dx]}, axis, !reverse);
                record_scan<C, decltype(op)>(tensors, last, workspace);
              },
              record_scan_workspace<C>(rows, n)};
    };
    // dx = y_before t, t[q] = dy[q] + x[q-1] t[q-1]; nothing before the first element is a 1.
    if (kind == "cumprod") return recurrence(LinearRecurrence<C, CumprodGradient>{{}, C(1)}, x, y);
    if (kind == "logcumsumexp") return recurrence(LogBackward<C>{}, y, x);
    if (kind == "cummax") return records(Maximum{});
    if (kind == "cummin") return records(Minimum{});
    throw PlanError("Unsupported", problem.plan + ": no gradient of kind '" + kind + "'");
  });
}

}  // namespace gradplan::scan
