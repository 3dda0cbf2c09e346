// Plain scans of any layout: y[i] = C3 o (C2 o (C1 o local[i])), the scan order of the contract.
#pragma once

#include "lanes/mask_bits.h"
#include "lanes/operations.h"
#include "memory/threads.h"
#include "scan/pieces.h"
#include "scan/row_values.h"

namespace gradplan::scan {

// Carries of one piece, one array per field, indexed by piece id.
template <class C>
struct PrefixCarries {
  C* total;  // summary of the piece
  C* c2;     // what comes in
  C* c3;
};

template <class C>
struct PrefixState {
  Lanes<C> c1, c2, c3;
};

template <class C, class Op, bool Emit>
struct PrefixKernel final : SweepKernelOf<C, PrefixState<C>> {
  using V = Lanes<C>;
  using State = PrefixState<C>;

  const PrefixCarries<C>* carries;  // pieces; null: whole rows
  bool by_chunk;                    // pieces are chunks, not blocks
  RowValues carry;                  // c3 of whole rows, if anything comes in

  explicit PrefixKernel(const PrefixCarries<C>* carries, bool by_chunk, const RowValues& carry = {})
      : SweepKernelOf<C, State>(1, Emit ? 1 : 0),
        carries(carries),
        by_chunk(by_chunk),
        carry(carry) {}

  void begin(void* state, const LaneInputs<C>&, const LaneRange& range, int64_t lane,
             int lanes) const override {
    State& s = this->of(state);
    s.c1 = s.c2 = s.c3 = Op::template identity<V>();
    if (Emit && carries != nullptr) {
      s.c2 = V::load(carries->c2 + range.id(lane));
      s.c3 = V::load(carries->c3 + range.id(lane));
    } else if (carry.present()) {
      s.c3 = carry.load_lanes<C>(lane, lanes);
    }
  }

  // Squares without a NaN need not ask where one came from (a product that is NaN stays NaN).
  static constexpr bool kHasty = std::is_same_v<Op, Product>;

  template <bool Hasty>
  GP_INLINE static V apply(const V& a, const V& b) {
    return apply_either<Op, Hasty>(a, b);
  }

  // False if hasty arithmetic met a NaN: then nothing has changed but the output square.
  template <bool Hasty>
  GP_INLINE bool scan(State& s, Square<C>* squares, int count) const {
    V local = Op::template identity<V>();
    const V c1 = s.c1, c2 = s.c2, c3 = s.c3;
    MaskOf<V> met_nan(IntOf<C>(0));
#pragma GCC unroll 4
    for (int i = 0; i < (Emit ? kLanes : count); ++i) {  // behind a row nobody looks
      local = apply<Hasty>(local, squares[0].get(i));
      if constexpr (Emit) {
        const V y = apply<Hasty>(c3, apply<Hasty>(c2, apply<Hasty>(c1, local)));
        if constexpr (Hasty) met_nan = met_nan | (y != y);
        squares[1].set(i, y);
      }
    }
    const V total = apply<Hasty>(c1, local);
    if constexpr (Hasty) {
      if (mask_bits(met_nan | (total != total)) != 0) return false;
    }
    s.c1 = total;
    return true;
  }

  void square(void* state, Square<C>* squares, int64_t, int count, int64_t) const override {
    State& s = this->of(state);
    if constexpr (kHasty) {
      if (!scan<true>(s, squares, count)) scan<false>(s, squares, count);
    } else {
      scan<false>(s, squares, count);
    }
  }

  void next_block(void* state, bool chunk_ended) const override {
    State& s = this->of(state);
    s.c2 = Op::apply(s.c2, s.c1);
    s.c1 = Op::template identity<V>();
    if (chunk_ended) {
      s.c3 = Op::apply(s.c3, s.c2);
      s.c2 = Op::template identity<V>();
    }
  }

  void end([[maybe_unused]] void* state, [[maybe_unused]] const LaneRange& range,
           [[maybe_unused]] int64_t lane, [[maybe_unused]] int lanes) const override {
    if constexpr (!Emit) {
      const State& s = this->of(state);
      const V total = by_chunk ? Op::apply(s.c3, Op::apply(s.c2, s.c1)) : s.c1;
      store_used(total, carries->total + range.id(lane), lanes);
    }
  }
};

// Chains the totals of pieces [from, to) of every row; c2 and c3 of piece `from` are there already.
template <class Op, class C>
void chain_prefix(const Cut& cut, const PrefixCarries<C>& carries, int64_t from, int64_t to) {
  for (int64_t row = 0; row < cut.rows; ++row) {
    for (int64_t piece = from; piece < to; ++piece) {
      const int64_t id = piece * cut.rows + row, next = id + cut.rows;
      if (piece + 1 == cut.pieces()) break;
      C c2 = carries.c2[id], c3 = carries.c3[id];
      if (cut.piece == kChunk) {
        c3 = Op::apply(c3, carries.total[id]);
      } else {
        c2 = Op::apply(c2, carries.total[id]);
        if ((piece + 1) * cut.piece % kChunk == 0) {
          c3 = Op::apply(c3, c2);
          c2 = Op::template identity<C>();
        }
      }
      carries.c2[next] = c2;
      carries.c3[next] = c3;
    }
  }
}

template <class Op, class C>
void sweep_prefix(const RowTensors& tensors, char* workspace, const RowValues& carry) {
  const Cut cut = Cut::of(tensors.rows, tensors.n);
  if (cut.whole()) {
    sweep<C>(PrefixKernel<C, Op, true>(nullptr, false, carry), tensors,
             {cut.rows, 0, 1, cut.n, cut.n});
    return;
  }
  const int64_t ids = cut.ids();
  using Arrays = PieceArrays<C>;
  const PrefixCarries<C> carries{Arrays::at(workspace, ids, 0), Arrays::at(workspace, ids, 1),
                                 Arrays::at(workspace, ids, 2)};
  for (int64_t row = 0; row < cut.rows; ++row) {
    carries.c2[row] = carries.c3[row] = Op::template identity<C>();
    if (carry.present()) carries.c3[row] = carry.load<C>(row);
  }
  const bool by_chunk = cut.piece == kChunk;
  const PrefixKernel<C, Op, false> summarise(&carries, by_chunk);
  const PrefixKernel<C, Op, true> emit(&carries, by_chunk);
  const RowTensors input = tensors.only(1);
  const int64_t span = span_pieces(cut, tensors.item());
  for (int64_t from = 0; from < cut.pieces(); from += span) {
    const int64_t to = std::min(from + span, cut.pieces());
    cut.ranges(from, std::min(to, cut.full()),
               [&](const LaneRange& r) { sweep<C>(summarise, input, r); });
    {
      FloatEnvironment environment;
      chain_prefix<Op>(cut, carries, from, to);
    }
    cut.ranges(from, to, [&](const LaneRange& r) { sweep<C>(emit, tensors, r); });
  }
}

template <class Op, class C>
void total_prefix(const RowTensors& tensors, C* totals) {
  const PrefixCarries<C> carries{totals, nullptr, nullptr};
  const int64_t n = tensors.n;
  sweep<C>(PrefixKernel<C, Op, false>(&carries, true), tensors, {tensors.rows, 0, 1, n, n});
}

}  // namespace gradplan::scan
