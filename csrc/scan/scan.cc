// Scans forward: logcumsumexp; the plain scans are in plain_scan.cc.
#include "scan/scan.h"

#include <limits>

#include "lanes/visit.h"
#include "scan/exclusive.h"
#include "scan/log_scan.h"

namespace gradplan::scan {
namespace {

const std::vector<std::string> kKinds = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};

BoundKernel bind_inclusive(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const Shape shape = problem.shape[0];
  if (kind != "logcumsumexp")
    return bind_prefix_scan(kind, problem.element(), shape, axis, reverse, 0, 1);
  const auto [rows, n] = rows_and_length(shape, axis);
  return visit_compute(problem.element(), [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              log_scan<C>(RowTensors({&t[0], &t[1]}, axis, reverse), workspace);
            },
            log_scan_workspace<C>(rows, n)};
  });
}

// What a scan of each kind starts from.
double identity_of(const std::string& kind) {
  if (kind == "cumsum") return 0;
  if (kind == "cumprod") return 1;
  const double infinity = std::numeric_limits<double>::infinity();
  return kind == "cummin" ? infinity : -infinity;
}

BoundKernel bind_scan(const Problem& problem) {
  if (!is_exclusive(problem)) return bind_inclusive(problem);
  return bind_exclusive(
      problem, {.results = {"y"}, .start = "y", .identity = identity_of(problem.text("kind"))},
      bind_inclusive);
}

BoundKernel bind_gradient(const Problem& problem) {
  if (!is_exclusive(problem)) return bind_scan_backward(problem);
  return bind_exclusive(problem, {.results = {"dy", "y"}, .ends = {"dx"}}, bind_scan_backward);
}

const Registration scan(
    {.name = "scan",
     .tensors = {"x", "y"},
     .attributes = {{"kind", kKinds}, {"scan_axis"}, {"reverse"}, {"exclusive"}},
     .elements = kFloats,
     .bind = bind_scan});
const Registration backward({.name = "scan_backward",
                             .tensors = {"dy", "x", "y", "dx"},
                             .attributes = {{"kind", kKinds},
                                            {"scan_axis"},
                                            {"reverse"},
                                            {"ties", {"first", "last"}},
                                            {"exclusive"}},
                             .elements = kFloats,
                             .bind = bind_gradient});

}  // namespace
}  // namespace gradplan::scan
