// Plain scans along rows whose elements are neighbours in memory, the common case.
//
// A block of the contract, 256 elements, is one stretch of memory: 16 groups of 16. Transposed in
// registers its groups become lanes, so that the serial sums inside all of them are vertical
// additions, and memory is touched from one end to the other. (A sweep, with sixteen rows as lanes,
// reads and writes sixteen streams at once: half as fast where rows lie a power of two apart.)
#pragma once

#include "mask_bits.h"
#include "prefix.h"
#include "streams.h"
#include "sweep.h"
#include "turns.h"

namespace gradplan {

// Blocks that are worked on together: the chains of their sixteen totals overlap, each of them
// being all latency. Forwards four of them: more leave the first-level cache. Backwards a chunk, so
// that memory is still read and written upwards, which is what the hardware prefetches; what comes
// next, lower down, is fetched meanwhile (0.45 -> 0.31 ns an element of f32).
template <bool Reverse>
constexpr int kBatchBlocks = Reverse ? 16 : 4;
template <bool Reverse>
constexpr int64_t kBatch = kBatchBlocks<Reverse> * kBlock;

template <class E, class Op, bool Reverse>
struct BatchScan {
  using C = ComputeOf<E>;
  using Part = Native<C>;
  using NativeMask = Native<IntOf<C>>;
  static constexpr int W = Lanes<C>::kWidth;

  struct Carry {
    C c2 = Op::template identity<C>(), c3 = c2;
    int block = 0;        // of the chunk
    int groups = kLanes;  // of a row, where a block holds several: nothing is carried then
  };

  // y[i] = c3 o (c2 o (c1 o local[i])) for the `count` elements at x, at most a batch; x and y are
  // their lowest addresses. Without y nothing but the carry is computed. A batch at `next`, if not
  // null, is fetched meanwhile.
  static void run(const E* x, E* y, int64_t count, StreamWriter<E>* stream, Carry& carry,
                  const E* next) {
    const Batch batch{x, y, count, int((count + kBlock - 1) / kBlock), stream, next};
    const Carry before = carry;
    if (!attempt<true>(batch, carry)) {
      carry = before;
      attempt<false>(batch, carry);
    }
  }

 private:
  // Which lane has a group; words may come in another order.
  static int lane_of(int group) { return kIsWord<E> ? ElementLanes<E>::kLaneOf[group] : group; }

  struct Batch {
    const E* x;
    E* y;
    int64_t count;
    int blocks;               // numbered upwards in memory
    StreamWriter<E>* stream;  // null: the output stays in the cache
    const E* next;

    // Where block b begins. The last one of the scan may be short: backwards it is the lowest, and
    // begins in front of x.
    int64_t begin(int b) const { return Reverse ? count - (blocks - b) * kBlock : b * kBlock; }
    // Its elements that exist: [first, last).
    int64_t first(int b) const { return std::max<int64_t>(0, -begin(b)); }
    int64_t last(int b) const { return std::min(kBlock, count - begin(b)); }
  };

  // Hasty arithmetic is right where no NaN comes up; false, and nothing is written, where one does.
  template <bool Hasty>
  __attribute__((noinline)) static bool attempt(const Batch& batch, Carry& carry) {
    Square<C>
        local[kBatchBlocks<Reverse>];  // [place in the group][lane], and blocks, all as in memory
    alignas(64) C c1[kBatchBlocks<Reverse>][kLanes];
    C c2[kBatchBlocks<Reverse>], c3[kBatchBlocks<Reverse>], total[kBatchBlocks<Reverse>];
    NativeMask met_nan{};
    for (int b = 0; b < batch.blocks; ++b) {
      const int64_t first = batch.first(b), last = batch.last(b);
      if (last - first == kBlock) {
        scan_groups<Hasty>(batch.x + batch.begin(b), local[b], met_nan);
      } else {
        alignas(64) E padded[kBlock];
        for (E& e : padded) store_element(&e, C(1));
        std::copy(batch.x + batch.begin(b) + first, batch.x + batch.begin(b) + last,
                  padded + first);
        scan_groups<Hasty>(padded, local[b], met_nan);
      }
    }
    bool ordinary = !any_bit(met_nan);
    const auto chain = [&](int b, int groups) GP_INLINE_LAMBDA {
      for (int start = 0; start < kLanes; start += groups) {
        C running = Op::template identity<C>();
        for (int i = start; i < start + groups; ++i) {
          const int lane = lane_of(Reverse ? kLanes - 1 - i : i);
          c1[b][lane] = running;
          running = apply<Hasty>(running, local[b].at[Reverse ? 0 : kLanes - 1][lane]);
        }
        if constexpr (Hasty) ordinary = ordinary && running == running;
        total[b] = running;
      }
    };
    const bool short_rows = carry.groups < kLanes;
    for (int b = 0; b < batch.blocks; ++b) short_rows ? chain(b, carry.groups) : chain(b, kLanes);
    for (int i = 0; i < batch.blocks; ++i) {
      const int b = Reverse ? batch.blocks - 1 - i : i;
      c2[b] = carry.c2;
      c3[b] = carry.c3;
      if (short_rows) continue;
      carry.c2 = Op::apply(carry.c2, total[b]);
      if constexpr (Hasty) ordinary = ordinary && Op::harmless(c2[b]) && Op::harmless(c3[b]);
      if (++carry.block == kChunk / kBlock) {
        carry.c3 = Op::apply(carry.c3, carry.c2);
        carry.c2 = Op::template identity<C>();
        carry.block = 0;
      }
    }
    if (!ordinary) return false;
    if (batch.y == nullptr) return true;
    for (int b = 0; b < batch.blocks; ++b) {
      const int64_t first = batch.first(b), last = batch.last(b);
      if (batch.next) prefetch_run(batch.next + b * kBlock, kBlock);
      alignas(64) E staged[kBlock];
      E* y = batch.y + (batch.begin(b) + first);
      const bool direct = !batch.stream && last - first == kBlock;
      const bool has_c3 = !bits_equal(c3[b], Op::template identity<C>());
      (has_c3 ? emit<Hasty, true> : emit<Hasty, false>)(local[b], c1[b], c2[b], c3[b],
                                                        direct ? y : staged);
      if (batch.stream)
        batch.stream->put(staged + first, y, last - first);
      else if (!direct)
        std::copy(staged + first, staged + last, y);
    }
    return true;
  }

  static bool bits_equal(C a, C b) {
    return std::bit_cast<IntOf<C>>(a) == std::bit_cast<IntOf<C>>(b);
  }

  template <bool Hasty, class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    return apply_either<Op, Hasty>(a, b);
  }

  template <bool Hasty>
  __attribute__((noinline)) static void scan_groups(const E* x, Square<C>& local,
                                                    NativeMask& met_nan) {
    if constexpr (kIsWord<E>) return scan_word_groups<Hasty>(x, local, met_nan);
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
          running = k + j == 0 ? r[i] : apply<Hasty>(running, r[i]);
          *reinterpret_cast<Part*>(&local.at[place + i][lane]) = running;
        }
      }
    }
  }

  template <bool Hasty>
  GP_INLINE static void scan_word_groups(const E* x, Square<C>& local, NativeMask& met_nan) {
    WordTile<E> tile;
    transpose_words([x](int i) { return x + i * kLanes; }, tile);
    Lanes<C> running;
    for (int i = 0; i < kLanes; ++i) {
      const int place = Reverse ? kLanes - 1 - i : i;
      const Lanes<C> v = ElementLanes<E>::load(tile.at[place]);
      for (int p = 0; p < Lanes<C>::kParts; ++p) {
        if constexpr (Hasty && Op::kLosesNan) met_nan |= v.part[p] != v.part[p];
        running.part[p] = i == 0 ? v.part[p] : apply<Hasty>(running.part[p], v.part[p]);
      }
      local.set(place, running);
    }
  }

  template <bool Hasty, bool HasC3>
  GP_INLINE static Part with_carries(const Part& v1, const Part& v2, const Part& v3,
                                     const Part& local) {
    const Part r = apply<Hasty>(v2, apply<Hasty>(v1, local));
    return HasC3 ? apply<Hasty>(v3, r) : r;
  }

  template <bool Hasty, bool HasC3>
  GP_INLINE static void emit_words(const Square<C>& local, const C* c1, C c2, C c3, E* y) {
    const Part v2 = c2 - Part{}, v3 = c3 - Part{};
    const Lanes<C> v1 = Lanes<C>::load(c1);
    WordTile<E> tile, rows;
    for (int place = 0; place < kLanes; ++place) {
      Lanes<C> r = local.get(place);
      for (int p = 0; p < Lanes<C>::kParts; ++p)
        r.part[p] = with_carries<Hasty, HasC3>(v1.part[p], v2, v3, r.part[p]);
      ElementLanes<E>::template store<!Hasty>(tile.at[place], r);
    }
    transpose_words([&](int i) { return tile.at[i]; }, rows);
    std::memcpy(static_cast<void*>(y), rows.at, sizeof rows);
  }

  template <bool Hasty, bool HasC3>
  __attribute__((noinline)) static void emit(const Square<C>& local, const C* c1, C c2, C c3,
                                             E* y) {
    if constexpr (kIsWord<E>) return emit_words<Hasty, HasC3>(local, c1, c2, c3, y);
    const Part v2 = c2 - Part{}, v3 = c3 - Part{};
    for (int lane = 0; lane < kLanes; lane += W) {
      const Part v1 = *reinterpret_cast<const Part*>(c1 + lane);
      for (int place = 0; place < kLanes; place += W) {
        Part r[W];
        for (int i = 0; i < W; ++i) {
          const Part l = *reinterpret_cast<const Part*>(&local.at[place + i][lane]);
          r[i] = with_carries<Hasty, HasC3>(v1, v2, v3, l);
        }
        transpose<C>(r);
        for (int i = 0; i < W; ++i) store_part<!Hasty>(y + (lane + i) * kLanes + place, r[i]);
      }
    }
  }
};

// A row or a part of one that starts with a chunk; x and y are the lowest addresses. `next` is
// where the scan goes on afterwards, backwards, or null.
template <class E, class Op, bool Reverse>
void scan_stretch(const E* x, E* y, int64_t n, StreamWriter<E>* stream,
                  typename BatchScan<E, Op, Reverse>::Carry& carry, const E* next) {
  constexpr int64_t kStep = kBatch<Reverse>;
  for (int64_t at = 0; at < n; at += kStep) {
    const int64_t count = std::min(kStep, n - at), low = Reverse ? n - at - count : at;
    if (y && stream) touch_pages(y + low, count);
    const E* soon = !Reverse ? nullptr : low >= kStep ? x + low - kStep : next;
    BatchScan<E, Op, Reverse>::run(x + low, y ? y + low : nullptr, count, stream, carry, soon);
  }
}

// Several of them fill a block, and follow one another without a gap.
template <class E>
bool rows_are_short(const Geometry<E, 2>& g) {
  return g.n >= kGroup && g.n < kBlock && kBlock % g.n == 0 && g.outer.extent.size() == 1 &&
         g.outer.stride[0] == std::array<int64_t, 2>{g.n, g.n};
}

template <class E>
bool rows_are_contiguous(const Geometry<E, 2>& g) {
  return g.step[0] == g.step[1] && (g.step[0] == 1 || g.step[0] == -1) &&
         (g.n >= kBlock || rows_are_short(g));
}

template <class Op, bool Reverse, class E>
void scan_rows(const Geometry<E, 2>& g) {
  using C = ComputeOf<E>;
  using Carry = typename BatchScan<E, Op, Reverse>::Carry;
  constexpr int64_t kPiece = (1 << 17) / int64_t(sizeof(E));  // stays in the second-level cache
  const bool large = g.bytes() >= kStreamBytes;
  const auto scan = [&](int64_t row, int64_t at, int64_t n, StreamWriter<E>* stream, bool write,
                        Carry& carry) {
    const auto offset = g.row_offsets(row);
    const int64_t low = Reverse ? -(at + n - 1) : at;
    const E* x = g.base[0] + offset[0] + low;
    E* y = write ? g.base[1] + offset[1] + low : nullptr;
    // Backwards a row is left at its low end, and the next one begins with its highest batch.
    const bool more = Reverse && at + n == g.n && row + 1 < g.rows && g.n >= kBatch<Reverse>;
    const E* next = more ? g.base[0] + g.row_offsets(row + 1)[0] - (kBatch<Reverse> - 1) : nullptr;
    scan_stretch<E, Op, Reverse>(x, y, n, stream, carry, next);
  };
  const int64_t bytes = g.rows * g.n * 2 * int64_t(sizeof(E));
  const int threads = num_threads();
  if (g.n < kBlock) {
    const int64_t low = Reverse ? -(g.n - 1) : 0, rows_of_block = kBlock / g.n;
    const int64_t blocks = (g.rows + rows_of_block - 1) / rows_of_block;
    parallel_for(blocks, long_grain(blocks, 64), bytes, [&](int64_t begin, int64_t end) {
      StreamWriter<E> stream;
      Carry carry;
      carry.groups = int(g.n / kGroup);
      const int64_t last = std::min(end * kBlock, g.rows * g.n);
      constexpr int64_t kStep = kBatch<false>;  // upwards, whichever way each row goes
      for (int64_t at = begin * kBlock; at < last; at += kStep) {
        const E* x = g.base[0] + low + at;
        E* y = g.base[1] + low + at;
        const int64_t count = std::min(kStep, last - at);
        if (large) touch_pages(y, count);
        BatchScan<E, Op, Reverse>::run(x, y, count, large ? &stream : nullptr, carry, nullptr);
      }
      stream.flush();
      if (large) stream_fence();
    });
    return;
  }
  if (g.rows >= 4 * threads || g.n <= 2 * kPiece || threads == 1) {
    const int64_t grain = long_grain(g.rows, g.rows * (1 << 16) / bytes);
    parallel_for(g.rows, grain, bytes, [&](int64_t begin, int64_t end) {
      StreamWriter<E> stream;
      for (int64_t row = begin; row < end; ++row) {
        Carry carry;
        scan(row, 0, g.n, large ? &stream : nullptr, true, carry);
      }
      if (large) stream_fence();
    });
    return;
  }
  // Long rows, in pieces: a first pass finds what each adds to c3, a second one, from the cache,
  // writes. Carries are handed on in order.
  const int64_t pieces = (g.n + kPiece - 1) / kPiece;
  Turns<C> turns;
  parallel_for(g.rows * pieces, 1, bytes, [&](int64_t begin, int64_t end) {
    StreamWriter<E> stream;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / pieces, first = task % pieces * kPiece;
      const int64_t last = std::min(first + kPiece, g.n);
      C total[kPiece / kChunk];
      for (int64_t at = first; at < last; at += kChunk) {
        Carry alone;
        scan(row, at, std::min(kChunk, last - at), nullptr, false, alone);
        total[(at - first) / kChunk] = alone.block == 0 ? alone.c3 : alone.c2;
      }
      Carry carry;
      turns.take(task, [&](C c3) {
        if (first > 0) carry.c3 = c3;
        c3 = carry.c3;
        for (int64_t at = first; at < last; at += kChunk)
          c3 = Op::apply(c3, total[(at - first) / kChunk]);
        return c3;
      });
      scan(row, first, last - first, large ? &stream : nullptr, true, carry);
    }
    if (large) stream_fence();
  });
}

}  // namespace gradplan
