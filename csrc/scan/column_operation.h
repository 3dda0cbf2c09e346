// The operations of plain scans on a strip of neighbouring columns.
#pragma once

#include "lanes/element_lanes.h"
#include "lanes/mask_bits.h"
#include "lanes/operations.h"
#include "scan/column_scan.h"

namespace gradplan::scan {

// Where the last columns do not fill sixteen lanes: the rest is 1.
template <class E>
__attribute__((noinline)) void pad_columns(const E* from, int64_t count, E* to) {
  for (int i = 0; i < kLanes; ++i) store_element(to + i, ComputeOf<E>(1));
  std::copy_n(from, count, to);
}

// The next Rows rows: local results go to local[1 - now], their results to s.result. False where
// hasty arithmetic met a NaN; nothing is lost then. What is hasty knows whether a group begins.
template <class E, class Op, int Rows, bool Hasty, bool HasC3, bool Begins>
bool scan_column_rows(ColumnStrip<E>& s, const E* x, int64_t step, int64_t ahead) {
  using C = ComputeOf<E>;
  using V = Lanes<C>;
  using Elements = ElementLanes<E>;
  const bool begins = Hasty ? Begins : s.position % kGroup == 0;
  const C* before = s.local[s.now];
  C* after = s.local[1 - s.now];
  NativeMask<C> met_nan{};
  const auto apply = [](auto a, auto b) GP_INLINE_LAMBDA { return apply_either<Op, Hasty>(a, b); };
  alignas(64) E padded[Rows][kLanes];
  for (int64_t at = 0, end = s.columns / kLanes * kLanes;;) {
    NativeMask<C> nan{};  // which no call below pushes out of its register
    for (; at < end; at += kLanes) {
      const V k1 = V::load(s.c1 + at), k2 = V::load(s.c2 + at), k3 = V::load(s.c3 + at);
      V local = V::load(before + at);
      if constexpr (Hasty && Op::kLosesNan)
        for (int p = 0; p < V::kParts; ++p)
          nan |=
              (k1.part[p] != k1.part[p]) | (k2.part[p] != k2.part[p]) | (k3.part[p] != k3.part[p]);
      for (int row = 0; row < Rows; ++row) {
        const E* from = x + row * step + at;
        for (int line = 0; line < kLanes * int(sizeof(E)); line += 64)
          __builtin_prefetch(reinterpret_cast<const char*>(from + ahead) + line, 0, 2);
        const V in = Elements::load(from);
        V out;
        for (int p = 0; p < V::kParts; ++p) {
          local.part[p] = begins && row == 0 ? in.part[p] : apply(local.part[p], in.part[p]);
          auto r = apply(k2.part[p], apply(k1.part[p], local.part[p]));
          if constexpr (HasC3) r = apply(k3.part[p], r);
          if constexpr (Hasty) nan |= r != r;
          if constexpr (Hasty && Op::kLosesNan)
            nan |= (in.part[p] != in.part[p]) | (local.part[p] != local.part[p]);
          out.part[p] = r;
        }
        Elements::template store<!Hasty>(s.result[row] + at, out);
      }
      local.store(after + at);
    }
    met_nan |= nan;
    if (at >= s.columns) break;
    // Once more for the columns that do not fill sixteen lanes.
    for (int row = 0; row < Rows; ++row)
      pad_columns(x + row * step + at, s.columns - at, padded[row]);
    x = reinterpret_cast<const E*>(reinterpret_cast<uintptr_t>(padded) - at * sizeof(E));
    step = kLanes;
    ahead = 0;
    end = at + kLanes;
  }
  return !any_bit(met_nan);
}

}  // namespace gradplan::scan
