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

  GP_INLINE static Part next(const Part& running, const Part& value) {
    const Part r = apply(running, value);
    return Hasty ? r : opaque(r);
  }

  template <bool Reverse>
  static void scan_groups(const E* x, int count, Square<C>* local, NativeMask<C>& met_nan) {
    NativeMask<C> nan{};
    for (int b = 0; b < count; ++b) {
      if constexpr (kIsWord<E>)
        scan_word_groups<Reverse>(x + b * kBlock, local[b], nan);
      else
        scan_block_groups<Reverse>(x + b * kBlock, local[b], nan);
    }
    met_nan |= nan;
  }

  template <bool Reverse>
  GP_INLINE static void scan_block_groups(const E* x, Square<C>& local, NativeMask<C>& met_nan) {
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
          running = k + j == 0 ? r[i] : next(running, r[i]);
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
        running.part[p] = i == 0 ? v.part[p] : next(running.part[p], v.part[p]);
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

  // Out of line: inside of the loop GCC runs out of registers and moves 19 vectors more a block.
  template <bool HasC3>
  __attribute__((noinline)) static void emit_words(const Square<C>& local, const C* c1, C c2, C c3,
                                                   E* y) {
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
  static void emit(const BatchBlocks<C>& blocks, int first, int count, C c3, E* y) {
    for (int b = first; b < first + count; ++b, y += kBlock) {
      if constexpr (kIsWord<E>)
        emit_words<HasC3>(blocks.local[b], blocks.c1[b], blocks.c2[b], c3, y);
      else
        emit_block<HasC3>(blocks.local[b], blocks.c1[b], blocks.c2[b], c3, y);
    }
  }

  template <bool HasC3>
  GP_INLINE static void emit_block(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
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

// Groups are lanes in the order of ElementLanes<E>. E is the compute type wherever that is the
// same, so that elements share it.
template <class E, class Op, bool Reverse, bool Hasty>
bool chain_blocks(BatchBlocks<ComputeOf<E>>& blocks, BatchCarry<ComputeOf<E>>& carry) {
  using C = ComputeOf<E>;
  bool ordinary = true;
  C total[kMostBlocks];
  const auto chain = [&](const C* __restrict edge, C* __restrict c1, int groups) GP_INLINE_LAMBDA {
    C running;
    for (int start = 0; start < kLanes; start += groups) {
      running = Op::template identity<C>();
      for (int i = start; i < start + groups; ++i) {
        const int lane = ElementLanes<E>::kLaneOf[Reverse ? kLanes - 1 - i : i];
        c1[lane] = running;
        running = apply_either<Op, Hasty>(running, edge[lane]);
      }
      if constexpr (Hasty) ordinary = ordinary && running == running;
    }
    return running;
  };
  const bool short_rows = carry.groups < kLanes;
  for (int b = 0; b < blocks.count; ++b) {
    const C* edge = blocks.local[b].at[Reverse ? 0 : kLanes - 1];
    total[b] =
        short_rows ? chain(edge, blocks.c1[b], carry.groups) : chain(edge, blocks.c1[b], kLanes);
  }
  for (int i = 0; i < blocks.count; ++i) {
    const int b = Reverse ? blocks.count - 1 - i : i;
    blocks.c2[b] = carry.c2;
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
  using Order = std::conditional_t<ElementLanes<E>::kPaired, E, ComputeOf<E>>;
  using Careful = RowArithmetic<E, Op, !Op::kCares>;
  using Hasty = RowArithmetic<E, Op, true>;
  return {{&Careful::template scan_groups<Reverse>, &Hasty::template scan_groups<Reverse>},
          {&chain_blocks<Order, Op, Reverse, false>, &chain_blocks<Order, Op, Reverse, true>}};
}

}  // namespace gradplan::scan
