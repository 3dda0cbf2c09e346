// Scans forward: logcumsumexp; the plain scans are in plain_scan.cc.
#include "scan.h"

#include "log_scan.h"

namespace gradplan {
namespace {

BoundKernel bind_scan(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const Shape shape = problem.shape[0];
  if (kind != "logcumsumexp")
    return bind_prefix_scan(kind, problem.dtypes[0][0], shape, axis, reverse, 0, 1);
  const auto [rows, n] = rows_and_length(shape, axis);
  return visit_element(problem.dtypes[0][0], [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              log_scan<E>(Geometry<E, 2>({&t[0], &t[1]}, axis, reverse), workspace);
            },
            log_scan_workspace<ComputeOf<E>>(rows, n)};
  });
}

}  // namespace

std::vector<KernelDefinition> scan_kernels() {
  return {{"scan", {"x", "y"}, {"kind", "scan_axis", "reverse"}, bind_scan},
          {"scan_backward",
           {"dy", "x", "y", "dx"},
           {"kind", "scan_axis", "reverse", "ties"},
           bind_scan_backward}};
}

}  // namespace gradplan
