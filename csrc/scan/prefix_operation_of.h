// prefix_operation of one operation. Each is compiled by itself (prefix_sum.cc and so on).
#pragma once

#include "scan/column_operation.h"
#include "scan/prefix_sweep.h"
#include "scan/row_operation.h"

namespace gradplan::scan {

template <class C, class Op>
void add_lanes(C* carry, const C* more, int64_t count) {
  using V = Lanes<C>;
  for (int64_t at = 0; at < count; at += kLanes)
    Op::apply(V::load(carry + at), V::load(more + at)).store(carry + at);
}

template <class Op, class E>
PrefixOperation<E> prefix_operation() {
  using C = ComputeOf<E>;
  using Careful = RowArithmetic<E, Op, false>;
  using Hasty = RowArithmetic<E, Op, true>;
  return {.identity = Op::template identity<C>(),
          .apply = [](C a, C b) { return Op::apply(a, b); },
          .rows = {row_operation<E, Op, false>(), row_operation<E, Op, true>()},
          .emit_hastily = {&Hasty::template emit<false>, &Hasty::template emit<true>},
          .emit_carefully = &Careful::template emit<true>,
          .emit_signs = emit_signs_of<E, Op>(),
          .careful_columns = {&scan_column_rows<E, Op, 1, false, true, false>,
                              &scan_column_rows<E, Op, 2, false, true, false>},
          .hasty_columns = {{&scan_column_rows<E, Op, 2, true, false, false>,
                             &scan_column_rows<E, Op, 2, true, false, true>},
                            {&scan_column_rows<E, Op, 2, true, true, false>,
                             &scan_column_rows<E, Op, 2, true, true, true>}},
          .add = &add_lanes<C, Op>,
          .sweep = &sweep_prefix<Op, C>,
          .total = &total_prefix<Op, C>};
}

#define GP_PREFIX_OPERATION(Op)                                  \
  template PrefixOperation<F16> prefix_operation<Op, F16>();     \
  template PrefixOperation<BF16> prefix_operation<Op, BF16>();   \
  template PrefixOperation<float> prefix_operation<Op, float>(); \
  template PrefixOperation<double> prefix_operation<Op, double>();

}  // namespace gradplan::scan
