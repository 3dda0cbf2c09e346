// Plain scans along rows whose elements are neighbours in memory, the common case: from one end of
// memory to the other, a batch of blocks at a time.
#pragma once

#include <bit>

#include "lanes/mask_bits.h"
#include "memory/ordered_carry.h"
#include "memory/streams.h"
#include "memory/threads.h"
#include "scan/prefix_operation.h"

namespace gradplan::scan {

template <class E>
class RowScan {
 public:
  using C = ComputeOf<E>;
  using Carry = BatchCarry<C>;

  RowScan(const PrefixOperation<E>& op, bool reverse) : op_(op), reverse_(reverse) {}

  Carry start() const { return {op_.identity, op_.identity}; }
  Carry start(const RowValues& c3, int64_t row) const {
    return {op_.identity, c3.present() ? c3.load<C>(row) : op_.identity};
  }
  C apply(C a, C b) const { return op_.apply(a, b); }

  // y[i] = c3 o (c2 o (c1 o local[i])) for the `count` elements at x, at most a batch; x and y are
  // their lowest addresses. Without y nothing but the carry is computed. A batch at `next`, if not
  // null, is fetched meanwhile.
  void run(const E* x, E* y, int64_t count, StreamWriter<E>* stream, Carry& carry,
           const E* next) const {
    const Batch batch{x, y, count, int((count + kBlock - 1) / kBlock), reverse_, stream, next};
    const C c3 = carry.c3;
    if (carry.c2 != carry.c2 || c3 != c3) {
      stay_nan(batch);  // nor does the carry change any more
      return;
    }
    BatchBlocks<C> blocks;
    prepare(batch, blocks, carry);
    if (y != nullptr) emit(batch, blocks, c3);
  }

  // A row or a part of one that starts with a chunk; x and y are the lowest addresses. `next` is
  // where the scan goes on afterwards, backwards, or null.
  void stretch(const E* x, E* y, int64_t n, StreamWriter<E>* stream, Carry& carry,
               const E* next) const {
    const int64_t step = batch_size<E>(reverse_);
    for (int64_t at = 0; at < n; at += step) {
      const int64_t count = std::min(step, n - at), low = reverse_ ? n - at - count : at;
      if (y && stream) touch_pages(y + low, count);
      const E* soon = !reverse_ ? nullptr : low >= step ? x + low - step : next;
      run(x + low, y ? y + low : nullptr, count, stream, carry, soon);
    }
  }

 private:
  struct Batch {
    const E* x;
    E* y;
    int64_t count;
    int blocks;  // numbered upwards in memory
    bool reverse;
    StreamWriter<E>* stream;  // null: the output stays in the cache
    const E* next;

    // Where block b begins. The last one of the scan may be short: backwards it is the lowest, and
    // begins in front of x.
    int64_t begin(int b) const { return reverse ? count - (blocks - b) * kBlock : b * kBlock; }
    // Its elements that exist: [first, last).
    int64_t first(int b) const { return std::max<int64_t>(0, -begin(b)); }
    int64_t last(int b) const { return std::min(kBlock, count - begin(b)); }
    // The block that is short, or -1.
    int short_block() const { return count % kBlock == 0 ? -1 : reverse ? 0 : blocks - 1; }
  };

  // Everything but the results. Hasty arithmetic is tried first; the blocks where a NaN comes up go
  // the careful way.
  __attribute__((noinline)) void prepare(const Batch& batch, BatchBlocks<C>& blocks,
                                         Carry& carry) const {
    const RowOperation<E>& op = op_.rows[reverse_];
    blocks.count = batch.blocks;
    // One block may be short: the last one of the scan.
    const bool has_short = batch.count % kBlock != 0;
    const int short_block = batch.short_block();
    const int first_full = has_short && reverse_, full = batch.blocks - has_short;
    alignas(64) E padded[kBlock];
    if (has_short) {
      for (E& e : padded) store_element(&e, C(1));
      const int64_t first = batch.first(short_block), last = batch.last(short_block);
      const E* from = batch.x + batch.begin(short_block);
      std::copy(from + first, from + last, padded + first);
    }
    const auto input = [&](int b) { return b == short_block ? padded : batch.x + batch.begin(b); };
    uint32_t nan =
        op.scan_groups[1](batch.x + batch.begin(first_full), full, blocks.local + first_full)
        << first_full;
    if (has_short) nan |= op.scan_groups[1](padded, 1, blocks.local + short_block) << short_block;
    const Carry before = carry;
    for (blocks.careful = 0;;) {
      blocks.careful |= nan;
      for (; nan != 0; nan &= nan - 1) {
        const int b = std::countr_zero(nan);
        op.scan_groups[0](input(b), 1, blocks.local + b);
      }
      nan = op.chain(blocks, carry);
      if (nan == 0) return;
      carry = before;
    }
  }

  __attribute__((noinline)) void emit(const Batch& batch, const BatchBlocks<C>& blocks,
                                      C c3) const {
    const int short_block = batch.short_block();
    constexpr int kTogether = 4;
    for (int b = 0; b < batch.blocks;) {
      const bool direct = !batch.stream && b != short_block;
      int count = 1;
      while (direct && count < kTogether && b + count < batch.blocks && b + count != short_block &&
             blocks.ending[b + count] == blocks.ending[b])
        ++count;
      if (batch.next) prefetch_run(batch.next + b * kBlock, count * kBlock);
      const int64_t first = batch.first(b), last = batch.last(b);
      E* y = batch.y + (batch.begin(b) + first);
      if (direct) {
        finish(blocks, b, count, c3, y);
      } else {
        alignas(64) E staged[kBlock];
        finish(blocks, b, 1, c3, staged);
        if (batch.stream)
          batch.stream->put(staged + first, y, last - first);
        else
          std::copy(staged + first, staged + last, y);
      }
      b += count;
    }
  }

  // Behind a NaN everything is NaN, whatever the input.
  static void stay_nan(const Batch& batch) {
    if (batch.y == nullptr) return;
    alignas(64) E nan[kBlock];
    fill_nan(nan, kBlock);
    for (int64_t at = 0; at < batch.count; at += kBlock) {
      const int64_t count = std::min(kBlock, batch.count - at);
      if (batch.stream)
        batch.stream->put(nan, batch.y + at, count);
      else
        std::copy_n(nan, count, batch.y + at);
    }
  }

  static constexpr C kNan = std::numeric_limits<C>::quiet_NaN();
  static void fill_nan(E* y, int64_t count) {
    E nan;
    store_element(&nan, kNan);
    std::fill_n(y, count, nan);
  }

  // The results of blocks with the same ending.
  GP_INLINE void finish(const BatchBlocks<C>& blocks, int b, int count, C c3, E* y) const {
    switch (blocks.ending[b]) {
      case Ending::kHasty:
        return op_.emit_hastily[!bits_equal(c3, op_.identity)](blocks, b, count, c3, y);
      case Ending::kCareful: return op_.emit_carefully(blocks, b, count, c3, y);
      case Ending::kSigns: return op_.emit_signs(blocks, b, count, c3, y);
      case Ending::kNan: return fill_nan(y, count * kBlock);
    }
  }

  static bool bits_equal(C a, C b) {
    return std::bit_cast<IntOf<C>>(a) == std::bit_cast<IntOf<C>>(b);
  }

  const PrefixOperation<E>& op_;
  const bool reverse_;
};

// Several of them fill a block, and follow one another without a gap.
template <class E>
bool rows_are_short(const Geometry<E>& g) {
  return g.n >= kGroup && g.n < kBlock && kBlock % g.n == 0 && g.outer.extent.size() == 1 &&
         g.outer.stride[0][0] == g.n && g.outer.stride[0][1] == g.n;
}

template <class E>
bool rows_are_contiguous(const Geometry<E>& g) {
  return g.step[0] == g.step[1] && (g.step[0] == 1 || g.step[0] == -1) &&
         (g.n >= kBlock || rows_are_short(g));
}

// `c3` has what comes into each row, if anything does: not into short rows.
template <class E>
void scan_rows(const PrefixOperation<E>& op, const Geometry<E>& g, const RowValues& c3) {
  using C = ComputeOf<E>;
  using Carry = BatchCarry<C>;
  const bool reverse = g.step[0] < 0;
  const RowScan<E> rows(op, reverse);
  constexpr int64_t kPiece = (1 << 17) / int64_t(sizeof(E));  // stays in the second-level cache
  const bool large = exceeds_caches(g.moved());
  const auto scan = [&](int64_t row, int64_t at, int64_t n, StreamWriter<E>* stream, bool write,
                        Carry& carry) {
    const auto offset = g.row_offsets(row);
    const int64_t low = reverse ? -(at + n - 1) : at;
    const E* x = g.base[0] + offset[0] + low;
    E* y = write ? g.base[1] + offset[1] + low : nullptr;
    // Backwards a row is left at its low end, and the next one begins with its highest batch.
    const int64_t batch = batch_size<E>(reverse);
    const bool more = reverse && at + n == g.n && row + 1 < g.rows && g.n >= batch;
    const E* next = more ? g.base[0] + g.row_offsets(row + 1)[0] - (batch - 1) : nullptr;
    rows.stretch(x, y, n, stream, carry, next);
  };
  const int64_t bytes = g.rows * g.n * 2 * int64_t(sizeof(E));
  const int threads = num_threads();
  if (g.n < kBlock) {
    const int64_t low = reverse ? -(g.n - 1) : 0, rows_of_block = kBlock / g.n;
    const int64_t blocks = (g.rows + rows_of_block - 1) / rows_of_block;
    parallel_for(blocks, long_grain(blocks, 64), bytes, [&](int64_t begin, int64_t end) {
      StreamWriter<E> stream;
      Carry carry = rows.start();
      carry.groups = int(g.n / kGroup);
      const int64_t last = std::min(end * kBlock, g.rows * g.n);
      constexpr int64_t kStep = batch_size<E>(false);  // upwards, whichever way each row goes
      for (int64_t at = begin * kBlock; at < last; at += kStep) {
        const E* x = g.base[0] + low + at;
        E* y = g.base[1] + low + at;
        const int64_t count = std::min(kStep, last - at);
        if (large) touch_pages(y, count);
        rows.run(x, y, count, large ? &stream : nullptr, carry, nullptr);
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
        Carry carry = rows.start(c3, row);
        scan(row, 0, g.n, large ? &stream : nullptr, true, carry);
      }
      if (large) stream_fence();
    });
    return;
  }
  // Long rows, in pieces: a first pass finds what each adds to c3, a second one, from the cache,
  // writes. Carries are handed on in order.
  const int64_t pieces = (g.n + kPiece - 1) / kPiece;
  OrderedCarry<C> ordered;
  parallel_for(g.rows * pieces, 1, bytes, [&](int64_t begin, int64_t end) {
    StreamWriter<E> stream;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / pieces, first = task % pieces * kPiece;
      const int64_t last = std::min(first + kPiece, g.n);
      C total[kPiece / kChunk];
      for (int64_t at = first; at < last; at += kChunk) {
        Carry alone = rows.start();
        scan(row, at, std::min(kChunk, last - at), nullptr, false, alone);
        total[(at - first) / kChunk] = alone.block == 0 ? alone.c3 : alone.c2;
      }
      Carry carry = rows.start(c3, row);
      ordered.take(task, [&](C running) {
        if (first > 0) carry.c3 = running;
        running = carry.c3;
        for (int64_t at = first; at < last; at += kChunk)
          running = rows.apply(running, total[(at - first) / kChunk]);
        return running;
      });
      scan(row, first, last - first, large ? &stream : nullptr, true, carry);
    }
    if (large) stream_fence();
  });
}

// What each row adds to c3; rows are contiguous and whole blocks.
template <class E>
void total_rows(const PrefixOperation<E>& op, const Geometry<E>& g, ComputeOf<E>* totals) {
  const bool reverse = g.step[0] < 0;
  const RowScan<E> rows(op, reverse);
  parallel_for(g.rows, 1, g.bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const E* x = g.base[0] + g.row_offsets(row)[0] - (reverse ? g.n - 1 : 0);
      auto carry = rows.start();
      rows.stretch(x, nullptr, g.n, nullptr, carry, nullptr);
      totals[row] = carry.block == 0 ? carry.c3 : rows.apply(carry.c3, carry.c2);
    }
  });
}

}  // namespace gradplan::scan
