// The plain scans: cumsum, cumprod, cummax, cummin; and cumsum's gradient, which is one as well.
#include "lanes/operations.h"
#include "lanes/visit.h"
#include "scan/column_scan.h"
#include "scan/pieces.h"
#include "scan/row_scan.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

template <class E>
PrefixOperation<E> operation_of(const std::string& kind) {
  if (kind == "cumsum") return prefix_operation<Sum, E>();
  if (kind == "cumprod") return prefix_operation<Product, E>();
  if (kind == "cummax") return prefix_operation<Maximum, E>();
  if (kind == "cummin") return prefix_operation<Minimum, E>();
  throw PlanError("Unsupported", "no plain scan of kind '" + kind + "'");
}

template <class E>
void prefix_scan(const PrefixOperation<E>& op, const Geometry<E>& geometry, char* workspace) {
  const Cut cut = Cut::of(geometry.rows, geometry.n);
  if (cut.empty()) return;
  if (rows_are_contiguous(geometry))
    scan_rows(op, geometry);
  else if (cut.whole() && columns_are_contiguous(geometry))
    scan_columns(op, geometry);
  else
    op.sweep(geometry, workspace);
}

}  // namespace

BoundKernel bind_prefix_scan(const std::string& kind, Dtype element, const Shape& shape, int axis,
                             bool reverse, int x, int y) {
  const auto [rows, n] = rows_and_length(shape, axis);
  const Cut cut = Cut::of(rows, n);
  return visit_element(element, [&](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    const PrefixOperation<E> op = operation_of<E>(kind);
    return {[=](const Operand* t, char* workspace) {
              prefix_scan(op, Geometry<E>({&t[x], &t[y]}, axis, reverse), workspace);
            },
            cut.whole() ? 0 : PieceArrays<ComputeOf<E>>::bytes(cut.ids(), 3)};
  });
}

}  // namespace gradplan::scan
