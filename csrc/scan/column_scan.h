// Plain scans along an axis across which memory runs: columns that are neighbours.
//
// A strip of columns goes down together, two rows at a time, so that memory is read and written in
// long runs; the carries of all its columns stay in the cache.
#pragma once

#include "memory/streams.h"
#include "memory/threads.h"
#include "scan/prefix_operation.h"

namespace gradplan::scan {

// Columns of a strip. A row of it is a page of f32: narrower ones translate more addresses, wider
// ones push the carries out of the first-level cache.
constexpr int64_t kStripColumns = 1024;

template <class E>
struct ColumnStrip {
  using C = ComputeOf<E>;

  // Rows that are worked on together: their carries are read once.
  static constexpr int kRows = 2;

  const PrefixOperation<E>& op;
  const int64_t columns;
  int64_t position = 0;
  int now = 0;  // local[now] is up to date
  alignas(64) C local[2][kStripColumns];
  alignas(64) C c1[kStripColumns], c2[kStripColumns], c3[kStripColumns];
  E* result[kRows];  // of the rows at work
  alignas(64) E staged[kRows][kStripColumns];

  ColumnStrip(const PrefixOperation<E>& op, int64_t columns) : op(op), columns(columns) {
    for (C* carry : {c1, c2, c3}) reset(carry);
  }

  // The next rows of the scan, `count` of them (1 or kRows, and then from a multiple of it on).
  // They may be written over, unless results go straight to y. Those `ahead` of them are
  // prefetched.
  void put(const E* x, int64_t x_step, int64_t ahead, E* y, int64_t y_step, int count,
           StreamWriter<E>* stream, bool straight) {
    for (int r = 0; r < count; ++r) result[r] = straight ? y + r * y_step : staged[r];
    const auto hasty = op.hasty_columns[position >= kChunk][position % kGroup == 0];
    if (count == 1 || !hasty(*this, x, x_step, ahead))
      op.careful_columns[count - 1](*this, x, x_step, ahead);
    now ^= 1;
    for (int r = 0; r < count && !straight; ++r) {
      if (stream)
        stream->put(staged[r], y + r * y_step, columns);
      else
        std::memcpy(static_cast<void*>(y + r * y_step), staged[r], size_t(columns) * sizeof(E));
    }
    position += count;
    if (position % kGroup == 0) op.add(c1, local[now], columns);
    if (position % kBlock == 0) {
      op.add(c2, c1, columns);
      reset(c1);
    }
    if (position % kChunk == 0) {
      op.add(c3, c2, columns);
      reset(c2);
    }
  }

 private:
  void reset(C* carry) { std::fill_n(carry, kStripColumns, op.identity); }
};

// Columns that lie side by side in both tensors, in runs that are worth it.
template <class E>
bool columns_are_contiguous(const Geometry<E>& g) {
  if (g.outer.extent.empty()) return false;
  const auto& inner = g.outer.stride.back();
  return inner[0] == 1 && inner[1] == 1 && g.outer.extent.back() * int64_t(sizeof(E)) >= 512;
}

template <class E>
void scan_columns(const PrefixOperation<E>& op, const Geometry<E>& g) {
  const int64_t columns = g.outer.extent.back(), stacks = g.rows / columns;
  const int64_t line = 64 / int64_t(sizeof(E));
  // Narrower strips where there would be fewer than threads.
  const int64_t share = (g.rows + num_threads() - 1) / num_threads();
  const int64_t width = std::clamp((share + line - 1) / line * line, 4 * line, kStripColumns);
  const int64_t strips = (columns + width - 1) / width;
  const bool large = exceeds_caches(g.moved());
  parallel_for(stacks * strips, 1, 2 * g.bytes(), [&](int64_t begin, int64_t end) {
    StreamWriter<E> stream;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % strips * width, count = std::min(width, columns - first);
      const auto offset = g.row_offsets(task / strips * columns + first);
      const E* x = g.base[0] + offset[0];
      E* y = g.base[1] + offset[1];
      ColumnStrip<E> strip(op, count);
      // Not where a second attempt still needs what was there.
      const bool straight = !large && count % kLanes == 0 && g.base[0] != g.base[1];
      constexpr int kRows = ColumnStrip<E>::kRows;
      for (int64_t i = 0; i < g.n;) {
        if (i % (kUninterrupted / kStripColumns) == 0) check_interruption();
        const int rows = i + kRows <= g.n ? kRows : 1;
        const bool more = i + 2 * rows <= g.n;
        for (int64_t ahead = i + rows; large && more && ahead < i + 2 * rows; ++ahead)
          touch_pages(y + ahead * g.step[1], count);
        strip.put(x + i * g.step[0], g.step[0], more ? rows * g.step[0] : 0, y + i * g.step[1],
                  g.step[1], rows, large ? &stream : nullptr, straight);
        i += rows;
      }
      stream.flush();
    }
    if (large) stream_fence();
  });
}

}  // namespace gradplan::scan
