// Scans forward: cumsum, cumprod, cummax, cummin, logcumsumexp.
#include "scan.h"

#include "log_scan.h"
#include "prefix.h"
#include "prefix_scan.h"

namespace gradplan {
namespace {

template <class E>
void launch_prefix(const std::string& kind, const Operand& x, const Operand& y, int axis,
                   bool reverse, char* workspace) {
  const Geometry<E, 2> geometry({&x, &y}, axis, reverse);
  if (kind == "cumsum")
    prefix_scan<Sum>(geometry, workspace);
  else if (kind == "cumprod")
    prefix_scan<Product>(geometry, workspace);
  else if (kind == "cummax")
    prefix_scan<Maximum>(geometry, workspace);
  else
    prefix_scan<Minimum>(geometry, workspace);
}

BoundKernel bind_scan(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const Shape shape = problem.shape[0];
  const auto [rows, n] = rows_and_length(shape, axis);
  return visit_element(problem.dtypes[0][0], [&](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    using C = ComputeOf<E>;
    if (kind == "logcumsumexp") {
      return {[=](const Operand* t, char* workspace) {
                log_scan<E>(Geometry<E, 2>({&t[0], &t[1]}, axis, reverse), workspace);
              },
              log_scan_workspace<C>(rows, n)};
    }
    return {[=](const Operand* t, char* workspace) {
              launch_prefix<E>(kind, t[0], t[1], axis, reverse, workspace);
            },
            prefix_scan_workspace<C>(rows, n)};
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
