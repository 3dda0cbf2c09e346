// Scans forward: logcumsumexp; the plain scans are in plain_scan.cc.
#include "scan/scan.h"

#include "lanes/visit.h"
#include "scan/log_scan.h"

namespace gradplan::scan {
namespace {

const std::vector<std::string> kKinds = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};

BoundKernel bind_scan(const Problem& problem) {
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

const Registration scan({.name = "scan",
                         .tensors = {"x", "y"},
                         .attributes = {{"kind", kKinds}, {"scan_axis"}, {"reverse"}},
                         .elements = kFloats,
                         .bind = bind_scan});
const Registration backward(
    {.name = "scan_backward",
     .tensors = {"dy", "x", "y", "dx"},
     .attributes = {{"kind", kKinds}, {"scan_axis"}, {"reverse"}, {"ties", {"first", "last"}}},
     .elements = kFloats,
     .bind = bind_scan_backward});

}  // namespace
}  // namespace gradplan::scan
