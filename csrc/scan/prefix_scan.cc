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
void prefix_scan(const PrefixOperation<E>& op, const Geometry<E>& geometry, char* workspace,
                 const RowValues& carry) {
  const Cut cut = Cut::of(geometry.rows, geometry.n);
  if (cut.empty()) return;
  if (rows_are_contiguous(geometry) && (geometry.n >= kBlock || !carry.present()))
    scan_rows(op, geometry, carry);
  else if (cut.whole() && columns_are_contiguous(geometry) && !carry.present())
    scan_columns(op, geometry);
  else
    op.sweep(geometry, workspace, carry);
}

template <class E>
void prefix_totals(const PrefixOperation<E>& op, const Geometry<E>& geometry, char* workspace) {
  using C = ComputeOf<E>;
  C* totals = reinterpret_cast<C*>(workspace);
  const bool contiguous = geometry.step[0] == 1 || geometry.step[0] == -1;
  if (geometry.n == 0)
    std::fill_n(totals, geometry.rows, op.identity);
  else if (contiguous && geometry.n % kBlock == 0)
    total_rows(op, geometry, totals);
  else
    op.total(geometry, totals);
}

}  // namespace

BoundKernel bind_prefix_scan(const std::string& kind, Dtype element, const Shape& shape, int axis,
                             bool reverse, int x, int y, int carry) {
  const auto [rows, n] = rows_and_length(shape, axis);
  const Cut cut = Cut::of(rows, n);
  return visit_element(element, [&](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    const PrefixOperation<E> op = operation_of<E>(kind);
    return {[=](const Operand* t, char* workspace) {
              if (carry < 0 || t[carry].data == nullptr) {
                prefix_scan(op, Geometry<E>({&t[x], &t[y]}, axis, reverse), workspace, {});
              } else {
                const Repeated start(t[carry], t[x], axis);
                const Geometry<E> all({&t[x], &t[y], &start}, axis, reverse);
                prefix_scan(op, all, workspace, RowValues(all, 2, t[carry].dtype));
              }
            },
            cut.whole() ? 0 : PieceArrays<ComputeOf<E>>::bytes(cut.ids(), 3)};
  });
}

BoundKernel bind_prefix_totals(const std::string& kind, Dtype element, const Shape& shape, int axis,
                               bool reverse, int x, int total, int gain, int exponent) {
  const auto [rows, n] = rows_and_length(shape, axis);
  return visit_element(element, [&, rows = rows](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    using C = ComputeOf<E>;
    const PrefixOperation<E> op = operation_of<E>(kind);
    return {[=](const Operand* t, char* workspace) {
              const Repeated totals(t[total], t[x], axis), gains(t[gain], t[x], axis);
              const Repeated exponents(exponent < 0 ? Operand{} : t[exponent], t[x], axis);
              const Geometry<E> all({&t[x], &totals, &gains, &exponents}, axis, reverse);
              prefix_totals(op, all, workspace);
              const RowValues to(all, 1, t[total].dtype), one(all, 2, t[gain].dtype),
                  zero(all, 3, t[gain].dtype);
              for (int64_t row = 0; row < all.rows; ++row) {
                to.store(row, reinterpret_cast<const C*>(workspace)[row]);
                one.store(row, C(1));
                if (zero.present()) zero.store(row, C(0));
              }
            },
            PieceArrays<C>::bytes(rows, 1)};
  });
}

}  // namespace gradplan::scan
