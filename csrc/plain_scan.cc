// The plain scans: cumsum, cumprod, cummax, cummin; and cumsum's gradient, which is one as well.
#include "prefix_scan.h"
#include "scan.h"

namespace gradplan {
namespace {

template <class E>
auto prefix_scan_of(const std::string& kind) {
  return kind == "cumsum"    ? &prefix_scan<Sum, E>
         : kind == "cumprod" ? &prefix_scan<Product, E>
         : kind == "cummax"  ? &prefix_scan<Maximum, E>
                             : &prefix_scan<Minimum, E>;
}

}  // namespace

BoundKernel bind_prefix_scan(const std::string& kind, Dtype element, const Shape& shape, int axis,
                             bool reverse, int x, int y) {
  const auto [rows, n] = rows_and_length(shape, axis);
  return visit_element(element, [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    const auto scan = prefix_scan_of<E>(kind);
    return {[=](const Operand* t, char* workspace) {
              scan(Geometry<E, 2>({&t[x], &t[y]}, axis, reverse), workspace);
            },
            prefix_scan_workspace<ComputeOf<E>>(rows, n)};
  });
}

}  // namespace gradplan
