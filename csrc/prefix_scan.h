// y[i] = C3 o (C2 o (C1 o local[i])): the scan order of the contract, for any operation of
// prefix.h.
#pragma once

#include "column_scan.h"
#include "mask_bits.h"
#include "prefix.h"
#include "row_scan.h"
#include "sweep.h"

namespace gradplan {

// Carries of one piece, one array per field, indexed by piece id.
template <class C>
struct PrefixCarries {
  C* total;  // summary of the piece
  C* c2;     // what comes in
  C* c3;
};

// Arrays of `ids` values, each padded so that 16 lanes can be loaded at its end.
template <class C>
struct PieceArrays {
  static constexpr int64_t padded(int64_t ids) { return (ids + kLanes) / kLanes * kLanes + kLanes; }
  static int64_t bytes(int64_t ids, int count) { return padded(ids) * count * int64_t(sizeof(C)); }
  static C* at(char* workspace, int64_t ids, int index) {
    return reinterpret_cast<C*>(workspace) + padded(ids) * index;
  }
};

template <class C>
int64_t prefix_scan_workspace(int64_t rows, int64_t n) {
  const Cut cut = Cut::of(rows, n);
  return cut.whole() ? 0 : PieceArrays<C>::bytes(cut.ids(), 3);
}

template <class E, class Op, bool Emit>
struct PrefixKernel {
  using Element = E;
  using C = ComputeOf<E>;
  using V = Lanes<C>;
  static constexpr int kInputs = 1, kOutputs = Emit ? 1 : 0;
  static constexpr bool ahead(int) { return false; }

  struct State {
    V c1, c2, c3;
  };

  const PrefixCarries<C>* carries = nullptr;  // pieces; null: whole rows
  bool by_chunk = false;                      // pieces are chunks, not blocks

  void begin(State& s, const LaneView<E>*, const LaneRange& range, int64_t lane, int) const {
    s.c1 = s.c2 = s.c3 = Op::template identity<V>();
    if (Emit && carries != nullptr) {
      s.c2 = V::load(carries->c2 + range.id(lane));
      s.c3 = V::load(carries->c3 + range.id(lane));
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
  GP_INLINE bool scan(State& s, Square<C>* squares) const {
    V local;
    const V c1 = s.c1, c2 = s.c2, c3 = s.c3;
    MaskOf<V> met_nan(IntOf<C>(0));
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const V x = squares[0].get(i);
      local = i == 0 ? x : apply<Hasty>(local, x);
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

  __attribute__((noinline)) void square(State& s, Square<C>* squares, int64_t, int, int64_t) const {
    if constexpr (kHasty) {
      if (!scan<true>(s, squares)) scan<false>(s, squares);
    } else {
      scan<false>(s, squares);
    }
  }

  void next_block(State& s, bool chunk_ended) const {
    s.c2 = Op::apply(s.c2, s.c1);
    s.c1 = Op::template identity<V>();
    if (chunk_ended) {
      s.c3 = Op::apply(s.c3, s.c2);
      s.c2 = Op::template identity<V>();
    }
  }

  void end(State& s, const LaneRange& range, int64_t lane, int lanes) const {
    if constexpr (!Emit) {
      alignas(64) C buffer[kLanes];
      (by_chunk ? Op::apply(s.c2, s.c1) : s.c1).store(buffer);
      std::copy(buffer, buffer + lanes, carries->total + range.id(lane));
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

// Pieces that two sweeps go over before the next ones: they stay in the cache between the two.
inline int64_t span_pieces(const Cut& cut, int64_t bytes_per_position) {
  const int64_t bytes = 4 << 20;
  return std::max<int64_t>(1, bytes / (cut.rows * cut.piece * bytes_per_position));
}

template <class Op, class E>
void prefix_scan(const Geometry<E, 2>& geometry, char* workspace) {
  using C = ComputeOf<E>;
  const Cut cut = Cut::of(geometry.rows, geometry.n);
  if (cut.empty()) return;
  if (rows_are_contiguous(geometry)) {
    geometry.step[0] < 0 ? scan_rows<Op, true>(geometry) : scan_rows<Op, false>(geometry);
    return;
  }
  if (cut.whole() && columns_are_contiguous(geometry)) {
    scan_columns<Op>(geometry);
    return;
  }
  if (cut.whole()) {
    sweep(PrefixKernel<E, Op, true>{}, geometry, {cut.rows, 0, 1, cut.n, cut.n});
    return;
  }
  const int64_t ids = cut.ids();
  using Arrays = PieceArrays<C>;
  const PrefixCarries<C> carries{Arrays::at(workspace, ids, 0), Arrays::at(workspace, ids, 1),
                                 Arrays::at(workspace, ids, 2)};
  for (int64_t row = 0; row < cut.rows; ++row)
    carries.c2[row] = carries.c3[row] = Op::template identity<C>();
  const Geometry<E, 1> input = geometry.template only<1>();
  const int64_t span = span_pieces(cut, sizeof(E));
  for (int64_t from = 0; from < cut.pieces(); from += span) {
    const int64_t to = std::min(from + span, cut.pieces());
    const bool by_chunk = cut.piece == kChunk;
    cut.ranges(from, std::min(to, cut.full()), [&](const LaneRange& r) {
      sweep(PrefixKernel<E, Op, false>{&carries, by_chunk}, input, r);
    });
    {
      FloatEnvironment environment;
      chain_prefix<Op>(cut, carries, from, to);
    }
    cut.ranges(from, to, [&](const LaneRange& r) {
      sweep(PrefixKernel<E, Op, true>{&carries, by_chunk}, geometry, r);
    });
  }
}

}  // namespace gradplan
