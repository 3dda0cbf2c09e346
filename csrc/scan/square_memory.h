// How squares are read from memory and written to it: sixteen lanes of one tensor.
#pragma once

#include "lanes/element_lanes.h"
#include "memory/line_writer.h"
#include "memory/streams.h"
#include "scan/square.h"

namespace gradplan::scan {

enum class Access {
  kRows,     // steps are neighbours in memory (forwards or backwards): transpose
  kColumns,  // lanes are neighbours in memory: load as they are
  kAny,
};

template <class E>
struct LaneView {
  E* lane[kLanes];  // step 0 of each lane; unused lanes repeat a used one
  int64_t step;     // elements from one step to the next
  int lanes;        // used lanes
  Access access;
  bool stream;  // write past the caches

  // `lane`, `step` and `lanes` are set: derive the rest.
  void settle(bool large_output) {
    for (int l = lanes; l < kLanes; ++l) lane[l] = lane[0];
    bool neighbours = lanes == kLanes;
    for (int l = 1; neighbours && l < kLanes; ++l) neighbours = lane[l] == lane[0] + l;
    access = neighbours                  ? Access::kColumns
             : (step == 1 || step == -1) ? Access::kRows
                                         : Access::kAny;
    // Columns are streamed where every step starts a line; rows through a LineWriter.
    stream = large_output && lanes == kLanes && access != Access::kAny;
    if (access == Access::kColumns)
      stream = stream && step * int64_t(sizeof(E)) % 64 == 0 &&
               reinterpret_cast<uintptr_t>(lane[0]) % 64 == 0 && kLanes * sizeof(E) % 64 == 0;
  }
};

// Rows that are read downwards are prefetched, so far ahead and into the second-level cache: the
// hardware does it for rising addresses only. (cumprod backward: 1.75 -> 0.95 ns an element for
// 4096 x 4000; 1.6 -> 1.45 for 4096 x 4096, whose rows crowd each other out of the first level.)
constexpr int64_t kPrefetchSquares = 16;

template <class E>
GP_INLINE void load_rows(const LaneView<E>& view, int64_t first, Square<ComputeOf<E>>& square) {
  using C = ComputeOf<E>;
  constexpr int W = Lanes<C>::kWidth;
  const bool backwards = view.step < 0;
  const int64_t offset = backwards ? -first - (kLanes - 1) : first;
  if (backwards)
    for (int l = 0; l < kLanes; ++l)
      prefetch_run(view.lane[l] + offset - kPrefetchSquares * kLanes, kLanes);
  if constexpr (kIsWord<E>) {
    // Rows change places so that the order of ElementLanes is that of the lanes.
    WordTile<E> tile;
    transpose_words(
        [&](int i) GP_INLINE_LAMBDA { return view.lane[ElementLanes<E>::lane_of(i)] + offset; },
        tile);
    for (int column = 0; column < kLanes; ++column)
      square.set(backwards ? kLanes - 1 - column : column, ElementLanes<E>::load(tile.at[column]));
    return;
  }
  for (int lane = 0; lane < kLanes; lane += W) {
    for (int column = 0; column < kLanes; column += W) {
      Native<C> r[W];
      for (int i = 0; i < W; ++i) r[i] = load_part(view.lane[lane + i] + offset + column);
      transpose<C>(r);
      for (int i = 0; i < W; ++i) {
        const int step = backwards ? kLanes - 1 - (column + i) : column + i;
        *reinterpret_cast<Native<C>*>(&square.at[step][lane]) = r[i];
      }
    }
  }
}

// Calls put(lane, elements) for every used lane: its 16 elements in the order of their addresses,
// as native vectors (before rounding) or, where they are words, as a whole.
template <class E, class Put>
GP_INLINE void for_each_row(const LaneView<E>& view, const Square<ComputeOf<E>>& square, Put put) {
  using C = ComputeOf<E>;
  constexpr int W = Lanes<C>::kWidth, kParts = Lanes<C>::kParts;
  const bool backwards = view.step < 0;
  if constexpr (kIsWord<E>) {
    WordTile<E> tile, rows;
    for (int column = 0; column < kLanes; ++column)
      ElementLanes<E>::template store<true>(tile.at[column],
                                            square.get(backwards ? kLanes - 1 - column : column));
    transpose_words([&](int i) GP_INLINE_LAMBDA { return tile.at[i]; }, rows);
    for (int i = 0; i < kLanes; ++i) {
      const int lane = ElementLanes<E>::lane_of(i);
      if (lane < view.lanes) put(lane, rows.at[i]);
    }
    return;
  }
  for (int lane = 0; lane < view.lanes; lane += W) {
    Native<C> r[kParts][W];
    for (int p = 0; p < kParts; ++p) {
      for (int i = 0; i < W; ++i) {
        const int column = p * W + i;
        const int step = backwards ? kLanes - 1 - column : column;
        r[p][i] = *reinterpret_cast<const Native<C>*>(&square.at[step][lane]);
      }
      transpose<C>(r[p]);
    }
    // All of a lane together: a streaming store wants its line whole (1.2 times faster).
    for (int i = 0; i < W && lane + i < view.lanes; ++i) {
      Native<C> parts[kParts];
      for (int p = 0; p < kParts; ++p) parts[p] = r[p][i];
      put(lane + i, parts);
    }
  }
}

// Steps [first, first + count) of all lanes; the steps behind them, up to 16, become `fill`.
// (Out of line, as below: inlined into every sweep they multiply the build time by ten.)
template <class E>
__attribute__((noinline)) void load_square(const LaneView<E>& view, int64_t first, int count,
                                           Square<ComputeOf<E>>& square, ComputeOf<E> fill) {
  using C = ComputeOf<E>;
  if (view.access == Access::kColumns) {
    for (int s = 0; s < count; ++s)
      square.set(s, load_lanes(view.lane[0] + (first + s) * view.step));
    for (int s = count; s < kLanes; ++s) square.set(s, Lanes<C>(fill));
  } else if (view.access == Access::kRows && count == kLanes) {
    load_rows(view, first, square);
  } else {
    for (int s = 0; s < count; ++s)
      for (int l = 0; l < kLanes; ++l)
        square.at[s][l] = load_element(view.lane[l] + (first + s) * view.step);
    for (int s = count; s < kLanes; ++s) square.set(s, Lanes<C>(fill));
  }
}

// `writer` has been started on the view where that streams rows.
template <class E>
__attribute__((noinline)) void store_square(const LaneView<E>& view, int64_t first, int count,
                                            const Square<ComputeOf<E>>& square,
                                            LineWriter<E>& writer) {
  using C = ComputeOf<E>;
  constexpr int W = Lanes<C>::kWidth, kParts = Lanes<C>::kParts;
  if (view.access == Access::kColumns) {
    for (int s = 0; s < count; ++s) {
      E* to = view.lane[0] + (first + s) * view.step;
      if (view.stream)
        stream_lanes(to, square.get(s));
      else
        store_lanes(to, square.get(s));
    }
  } else if (view.access == Access::kRows && count == kLanes && view.stream) {
    for_each_row(view, square, [&](int lane, auto* elements) { writer.put(lane, elements); });
    writer.end_square();
  } else if (view.access == Access::kRows && count == kLanes) {
    const int64_t offset = view.step < 0 ? -first - (kLanes - 1) : first;
    for_each_row(view, square, [&](int lane, auto* elements) {
      if constexpr (kIsWord<E>)
        std::memcpy(static_cast<void*>(view.lane[lane] + offset), elements, kLanes * sizeof(E));
      else
        for (int p = 0; p < kParts; ++p) store_part(view.lane[lane] + offset + p * W, elements[p]);
    });
  } else {
    for (int l = 0; l < view.lanes; ++l)
      for (int s = 0; s < count; ++s)
        store_element(view.lane[l] + (first + s) * view.step, square.at[s][l]);
  }
}

}  // namespace gradplan::scan
