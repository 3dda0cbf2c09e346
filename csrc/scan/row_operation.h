// The operations of plain scans on rows whose elements are neighbours in memory.
//
// A block of the contract, 256 elements, is one stretch of memory: 16 groups of 16. Transposed in
// registers its groups become lanes, so that the serial sums inside all of them are vertical
// additions, and memory is touched from one end to the other. (A sweep, with sixteen rows as lanes,
// reads and writes sixteen streams at once: half as fast where rows lie a power of two apart.)
#pragma once

#include "lanes/element_lanes.h"
#include "lanes/mask_bits.h"
#include "lanes/operations.h"
#include "scan/prefix_operation.h"
#include "scan/settled_products.h"

namespace gradplan::scan {

template <class E, class Carries, bool MayBeNan>
void emit_blocks(const BatchBlocks<ComputeOf<E>>& blocks, int first, int count, ComputeOf<E> c3,
                 E* y);

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
  static uint32_t scan_groups(const E* x, int count, Square<C>* local) {
    uint32_t lost_nan = 0;
    for (int b = 0; b < count; ++b) {
      NativeMask<C> nan{};
      if constexpr (kIsWord<E>)
        scan_word_groups<Reverse>(x + b * kBlock, local[b], nan);
      else
        scan_block_groups<Reverse>(x + b * kBlock, local[b], nan);
      if constexpr (Hasty && Op::kLosesNan) lost_nan |= uint32_t(any_bit(nan)) << b;
    }
    return lost_nan;
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

  // What makes results of local ones: given c1 and them.
  template <bool HasC3>
  struct Carries {
    Part v2, v3;

    GP_INLINE Carries(C c2, C c3) : v2(c2 - Part{}), v3(c3 - Part{}) {}
    GP_INLINE Part operator()(const Part& v1, const Part& local) const {
      const Part r = apply(v2, apply(v1, local));
      return HasC3 ? apply(v3, r) : r;
    }
  };

  template <bool HasC3>
  static void emit(const BatchBlocks<C>& blocks, int first, int count, C c3, E* y) {
    emit_blocks<E, Carries<HasC3>, !Hasty>(blocks, first, count, c3, y);
  }
};

// Out of line: inside of the loop GCC runs out of registers and moves 19 vectors more a block.
template <class E, class Carries, bool MayBeNan, class C>
__attribute__((noinline)) void emit_words(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
  const Carries carries(c2, c3);
  const Lanes<C> v1 = Lanes<C>::load(c1);
  WordTile<E> tile, rows;
  for (int place = 0; place < kLanes; ++place) {
    Lanes<C> r = local.get(place);
    for (int p = 0; p < Lanes<C>::kParts; ++p) r.part[p] = carries(v1.part[p], r.part[p]);
    ElementLanes<E>::template store<MayBeNan>(tile.at[place], r);
  }
  transpose_words([&](int i) { return tile.at[i]; }, rows);
  std::memcpy(static_cast<void*>(y), rows.at, sizeof rows);
}

template <class E, class Carries, bool MayBeNan, class C>
GP_INLINE void emit_block(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
  using Part = Native<C>;
  constexpr int W = Lanes<C>::kWidth;
  const Carries carries(c2, c3);
  for (int lane = 0; lane < kLanes; lane += W) {
    const Part v1 = *reinterpret_cast<const Part*>(c1 + lane);
    for (int place = 0; place < kLanes; place += W) {
      Part r[W];
      for (int i = 0; i < W; ++i)
        r[i] = carries(v1, *reinterpret_cast<const Part*>(&local.at[place + i][lane]));
      transpose<C>(r);
      for (int i = 0; i < W; ++i) store_part<MayBeNan>(y + (lane + i) * kLanes + place, r[i]);
    }
  }
}

template <class E, class Carries, bool MayBeNan>
void emit_blocks(const BatchBlocks<ComputeOf<E>>& blocks, int first, int count, ComputeOf<E> c3,
                 E* y) {
  for (int b = first; b < first + count; ++b, y += kBlock) {
    if constexpr (kIsWord<E>)
      emit_words<E, Carries, MayBeNan>(blocks.local[b], blocks.c1[b], blocks.c2[b], c3, y);
    else
      emit_block<E, Carries, MayBeNan>(blocks.local[b], blocks.c1[b], blocks.c2[b], c3, y);
  }
}

template <class E, class Op>
typename PrefixOperation<E>::Emit emit_signs_of() {
  if constexpr (std::is_same_v<Op, Product>)
    return &emit_blocks<E, SignCarries<ComputeOf<E>>, false>;
  else
    return nullptr;
}

// Groups are lanes in the order of ElementLanes<E>. E is the compute type wherever that is the
// same, so that elements share it.
template <class E, class Op, bool Reverse>
uint32_t chain_blocks(BatchBlocks<ComputeOf<E>>& blocks, BatchCarry<ComputeOf<E>>& carry) {
  using C = ComputeOf<E>;
  constexpr bool kSettles = std::is_same_v<Op, Product>;
  const auto chain = [&](const C* __restrict edge, C* __restrict c1, int groups,
                         auto hasty) GP_INLINE_LAMBDA {
    C running;
    bool ordinary = true;
    for (int start = 0; start < kLanes; start += groups) {
      running = Op::template identity<C>();
      for (int i = start; i < start + groups; ++i) {
        const int lane = ElementLanes<E>::kLaneOf[Reverse ? kLanes - 1 - i : i];
        c1[lane] = running;
        running = apply_either<Op, hasty>(running, edge[lane]);
      }
      ordinary = ordinary && running == running;
    }
    return std::pair(running, ordinary);
  };
  const bool short_rows = carry.groups < kLanes;
  const auto edge_of = [&](int b) { return blocks.local[b].at[Reverse ? 0 : kLanes - 1]; };
  // Where only signs are left, they are all that is chained: in blocks that follow one another from
  // the first on, behind which c2 is still what it was.
  uint32_t settled = 0;
  alignas(64) C sign[kLanes];
  if constexpr (kSettles) {
    const bool at_end = carry.c2 == C(0) || std::isinf(carry.c2);
    for (int i = 0; i < blocks.count && at_end; ++i) {
      const int b = Reverse ? blocks.count - 1 - i : i;
      const auto last = Lanes<C>::load(edge_of(b));
      if (mask_bits(last != last) != 0) break;
      if (!only_signs_are_left(blocks.local[b], carry.c2, carry.c3)) break;
      settled |= 1u << b;
    }
  }
  C total[kMostBlocks];
  uint32_t met_nan = 0;
  for (int b = 0; b < blocks.count; ++b) {
    C* const c1 = blocks.c1[b];
    const C* edge = edge_of(b);
    if (settled >> b & 1) {
      for (int l = 0; l < kLanes; ++l) sign[l] = std::copysign(C(1), edge[l]);
      edge = sign;
    }
    auto [running, ordinary] = short_rows ? chain(edge, c1, carry.groups, std::true_type{})
                                          : chain(edge, c1, kLanes, std::true_type{});
    blocks.ending[b] = Ending::kHasty;
    if (!ordinary || blocks.careful >> b & 1) {
      running = chain(edge, c1, carry.groups, std::false_type{}).first;
      blocks.ending[b] = Ending::kCareful;
      met_nan |= 1u << b;
    }
    total[b] = running;
  }
  for (int i = 0; i < blocks.count; ++i) {
    const int b = Reverse ? blocks.count - 1 - i : i;
    const C c2 = blocks.c2[b] = carry.c2, c3 = carry.c3;
    if (short_rows) continue;
    Ending& ending = blocks.ending[b];
    if (c2 != c2 || c3 != c3) {
      ending = Ending::kNan;
    } else if (!(Op::harmless(c2) && Op::harmless(c3)) && ending == Ending::kHasty) {
      ending = Ending::kCareful;
      if constexpr (kSettles)
        if (settled >> b & 1 || only_signs_are_left(blocks.local[b], c2, c3))
          ending = Ending::kSigns;
    }
    carry.c2 = Op::apply(c2, total[b]);
    if (++carry.block == kChunk / kBlock) {
      carry.c3 = Op::apply(c3, carry.c2);
      carry.c2 = Op::template identity<C>();
      carry.block = 0;
    }
  }
  return Op::kCares ? met_nan & ~blocks.careful : 0;
}

template <class E, class Op, bool Reverse>
RowOperation<E> row_operation() {
  using Order = std::conditional_t<ElementLanes<E>::kPaired, E, ComputeOf<E>>;
  using Careful = RowArithmetic<E, Op, !Op::kCares>;
  using Hasty = RowArithmetic<E, Op, true>;
  return {{&Careful::template scan_groups<Reverse>, &Hasty::template scan_groups<Reverse>},
          &chain_blocks<Order, Op, Reverse>};
}

}  // namespace gradplan::scan
