// linear_scan, h[t] = a[t] h[t-1] + b[t], and its gradients.
#include "lanes/visit.h"
#include "scan/exclusive.h"
#include "scan/linear_recurrence.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

BoundKernel bind_inclusive(const Problem& problem) {
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const int a = problem.at("a"), b = problem.at("b"), initial = problem.at("initial"),
            h = problem.at("h");
  const auto [rows, n] = rows_and_length(problem.shape[a], axis);
  const Cut cut = Cut::of(rows, n);
  return visit_compute(problem.element(), [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              const Repeated start(t[initial], t[a], axis);
              const RowTensors all({&start, &t[b], &t[a], &t[h]}, axis, reverse);
              const RecurrenceCarries<C> carries(workspace, cut);
              run_recurrence(LinearRecurrence<C, LinearForward>{}, all.only(3, 1), cut, &carries,
                             RowValues(all, 0));
            },
            recurrence_workspace<C>(cut)};
  });
}

// Position 0 of the sweep is the end of the forward scan. db[q] = dh[q] + a[q-1] db[q-1], and da is
// that times the state before.
BoundKernel bind_inclusive_backward(const Problem& problem) {
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const int dh = problem.at("dh"), a = problem.at("a"), h = problem.at("h"),
            initial = problem.at("initial"), da = problem.at("da"), db = problem.at("db"),
            d_initial = problem.at("d_initial");
  const auto [rows, n] = rows_and_length(problem.shape[a], axis);
  const Cut cut = Cut::of(rows, n);
  return visit_compute(problem.element(), [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              const Repeated start(t[initial], t[a], axis), d_start(t[d_initial], t[a], axis);
              const RowTensors all({&start, &d_start, &t[dh], &t[a], &t[h], &t[da], &t[db]}, axis,
                                   !reverse);
              const RowValues left(all, 1);
              if (cut.n == 0 && left.present())
                for (int64_t row = 0; row < cut.rows; ++row) left.store(row, C(0));
              const RecurrenceCarries<C> carries(workspace, cut);
              const LinearRecurrence<C, LinearGradient> policy{RowValues(all, 0), C(0), left};
              run_recurrence(policy, all.only(5, 2), cut, &carries);
            },
            recurrence_workspace<C>(cut)};
  });
}

BoundKernel bind_linear_scan(const Problem& problem) {
  if (!is_exclusive(problem)) return bind_inclusive(problem);
  return bind_exclusive(problem, {.results = {"h"}, .start = "h", .initial = "initial"},
                        bind_inclusive);
}

BoundKernel bind_linear_scan_backward(const Problem& problem) {
  if (!is_exclusive(problem)) return bind_inclusive_backward(problem);
  return bind_exclusive(problem,
                        {.results = {"dh", "h"},
                         .initial = "initial",
                         .ends = {"da", "db"},
                         .d_initial = "d_initial",
                         .d_first = "dh"},
                        bind_inclusive_backward);
}

const Registration forward({.name = "linear_scan",
                            .tensors = {"a", "b", "initial", "h"},
                            .attributes = {{"scan_axis"}, {"reverse"}, {"exclusive"}},
                            .elements = kFloats,
                            .bind = bind_linear_scan});
const Registration backward({.name = "linear_scan_backward",
                             .tensors = {"dh", "a", "h", "initial", "da", "db", "d_initial"},
                             .attributes = {{"scan_axis"}, {"reverse"}, {"exclusive"}},
                             .elements = kFloats,
                             .bind = bind_linear_scan_backward});

}  // namespace
}  // namespace gradplan::scan
