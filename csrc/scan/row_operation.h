// The operations of plain scans on rows whose elements are neighbours in memory.
//
// A block of the contract, 256 elements, is one stretch of memory: 16 groups of 16. Transposed in
// registers its groups become lanes, so that the serial sums inside all of them are vertical
// additions, and memory is touched from one end to the other. (A sweep, with sixteen rows as lanes,
// reads and writes sixteen streams at once: half as fast where rows lie a power of two apart.)
#pragma once

#include "lanes/element_lanes.h"
#include "lanes/operations.h"
#include "scan/prefix_operation.h"

namespace gradplan::scan {

template <class E, class Op, bool Hasty>
struct RowArithmetic {
  using C = ComputeOf<E>;
  using Part = Native<C>;
  static constexpr int W = Lanes<C>::kWidth;

  GP_INLINE static Part apply(const Part& a, const Part& b) {
    return apply_either<Op, Hasty>(a, b);
  }

  template <bool Reverse>
  static void scan_groups(const E* x, Square<C>& local, NativeMask<C>& met_nan) {
    if constexpr (kIsWord<E>) return scan_word_groups<Reverse>(x, local, met_nan);
    for (int lane = 0; lane < kLanes; lane += W) {
      Part running;
      for (int k = 0; k < kLanes; k += W) {
        const int place = Reverse ? kLanes - W - k : k;
        Part r[W];
        for (int i = 0; i < W; ++i) r[i] = load_part(x + (lane + i) * kLanes + place);
        if constexpr (Hasty && Op::kLosesNan)
          for (int i = 0; i < W; ++i) met_nan |= r[i] != r[i];
        transpose<C>(r);
        for (int j = 0; j < W; ++j) {
          const int i = Reverse ? W - 1 - j : j;
          running = k + j == 0 ? r[i] : apply(running, r[i]);
          *reinterpret_cast<Part*>(&local.at[place + i][lane]) = running;
        }
      }
    }
  }

  template <bool Reverse>
  GP_INLINE static void scan_word_groups(const E* x, Square<C>& local, NativeMask<C>& met_nan) {
    WordTile<E> tile;
    transpose_words([x](int i) { return x + i * kLanes; }, tile);
    Lanes<C> running;
    for (int i = 0; i < kLanes; ++i) {
      const int place = Reverse ? kLanes - 1 - i : i;
      const Lanes<C> v = ElementLanes<E>::load(tile.at[place]);
      for (int p = 0; p < Lanes<C>::kParts; ++p) {
        if constexpr (Hasty && Op::kLosesNan) met_nan |= v.part[p] != v.part[p];
        running.part[p] = i == 0 ? v.part[p] : apply(running.part[p], v.part[p]);
      }
      local.set(place, running);
    }
  }

  template <bool HasC3>
  GP_INLINE static Part with_carries(const Part& v1, const Part& v2, const Part& v3,
                                     const Part& local) {
    const Part r = apply(v2, apply(v1, local));
    return HasC3 ? apply(v3, r) : r;
  }

  template <bool HasC3>
  GP_INLINE static void emit_words(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
    const Part v2 = c2 - Part{}, v3 = c3 - Part{};
    const Lanes<C> v1 = Lanes<C>::load(c1);
    WordTile<E> tile, rows;
    for (int place = 0; place < kLanes; ++place) {
      Lanes<C> r = local.get(place);
      for (int p = 0; p < Lanes<C>::kParts; ++p)
        r.part[p] = with_carries<HasC3>(v1.part[p], v2, v3, r.part[p]);
      ElementLanes<E>::template store<!Hasty>(tile.at[place], r);
    }
    transpose_words([&](int i) { return tile.at[i]; }, rows);
    std::memcpy(static_cast<void*>(y), rows.at, sizeof rows);
  }

  template <bool HasC3>
  static void emit(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
    if constexpr (kIsWord<E>) return emit_words<HasC3>(local, c1, c2, c3, y);
    const Part v2 = c2 - Part{}, v3 = c3 - Part{};
    for (int lane = 0; lane < kLanes; lane += W) {
      const Part v1 = *reinterpret_cast<const Part*>(c1 + lane);
      for (int place = 0; place < kLanes; place += W) {
        Part r[W];
        for (int i = 0; i < W; ++i) {
          const Part l = *reinterpret_cast<const Part*>(&local.at[place + i][lane]);
          r[i] = with_carries<HasC3>(v1, v2, v3, l);
        }
        transpose<C>(r);
        for (int i = 0; i < W; ++i) store_part<!Hasty>(y + (lane + i) * kLanes + place, r[i]);
      }
    }
  }
};

template <class C, class Op, bool Reverse, bool Hasty>
bool chain_blocks(BatchBlocks<C>& blocks, BatchCarry<C>& carry, const int* lane_of_group) {
  bool ordinary = true;
  C total[kMostBlocks];
  const auto chain = [&](int b, int groups) GP_INLINE_LAMBDA {
    const C* edge = blocks.local[b].at[Reverse ? 0 : kLanes - 1];
    for (int start = 0; start < kLanes; start += groups) {
      C running = Op::template identity<C>();
      for (int i = start; i < start + groups; ++i) {
        const int lane = lane_of_group[Reverse ? kLanes - 1 - i : i];
        blocks.c1[b][lane] = running;
        running = apply_either<Op, Hasty>(running, edge[lane]);
      }
      if constexpr (Hasty) ordinary = ordinary && running == running;
      total[b] = running;
    }
  };
  const bool short_rows = carry.groups < kLanes;
  for (int b = 0; b < blocks.count; ++b) short_rows ? chain(b, carry.groups) : chain(b, kLanes);
  for (int i = 0; i < blocks.count; ++i) {
    const int b = Reverse ? blocks.count - 1 - i : i;
    blocks.c2[b] = carry.c2;
    blocks.c3[b] = carry.c3;
    if (short_rows) continue;
    if constexpr (Hasty) ordinary = ordinary && Op::harmless(carry.c2) && Op::harmless(carry.c3);
    carry.c2 = Op::apply(carry.c2, total[b]);
    if (++carry.block == kChunk / kBlock) {
      carry.c3 = Op::apply(carry.c3, carry.c2);
      carry.c2 = Op::template identity<C>();
      carry.block = 0;
    }
  }
  return ordinary;
}

template <class E, class Op, bool Reverse>
RowOperation<E> row_operation() {
  using C = ComputeOf<E>;
  using Careful = RowArithmetic<E, Op, !Op::kCares>;
  using Hasty = RowArithmetic<E, Op, true>;
  return {{&Careful::template scan_groups<Reverse>, &Hasty::template scan_groups<Reverse>},
          {&chain_blocks<C, Op, Reverse, false>, &chain_blocks<C, Op, Reverse, true>}};
}

}  // namespace gradplan::scan
