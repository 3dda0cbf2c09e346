// Squares of 16 steps x 16 lanes: how scans read and write memory.
//
// A lane is one row (or one piece of a row) and a step is one position along the scan. Whatever the
// layout of a tensor, a square in scratch memory is [step][lane] in the compute type, so the scans
// themselves know nothing of strides, element types or direction.
#pragma once

#include <utility>

#include "dtype.h"
#include "line_writer.h"

namespace gradplan {

template <class C>
struct alignas(64) Square {
  C at[kLanes][kLanes];  // [step][lane]

  GP_INLINE Lanes<C> get(int step) const { return Lanes<C>::load(at[step]); }
  GP_INLINE void set(int step, const Lanes<C>& v) { v.store(at[step]); }
};

// ---- transposition in registers ----------------------------------------------------------------

namespace detail {

template <class V, int... I>
GP_INLINE V shuffle(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// The pattern of indices that F gives: F(i) selects from a (i < width) or b.
template <class F, int... I>
constexpr auto pattern(std::integer_sequence<int, I...>) {
  return std::integer_sequence<int, F::at(I)...>{};
}

// Inside each 128-bit unit of U elements: interleave the low (or high) halves of a and b, in runs
// of R.
template <int W, int U, int R, bool High>
struct Interleave {
  static constexpr int at(int i) {
    const int unit = i / U * U, j = i % U;
    const int run = j / R, within = j % R;
    return (run % 2 ? W : 0) + unit + (High ? U / 2 : 0) + run / 2 * R + within;
  }
};

// Whole 128-bit units: first half of the result from a, second from b. Units (Odd + 2k) of each.
template <int W, int U, bool High>
struct UnitHalves {
  static constexpr int at(int i) {
    const int units = W / U, unit = i / U;
    const int half = units / 2;
    return (unit >= half ? W : 0) + ((unit % half) + (High ? half : 0)) * U + i % U;
  }
};

// Even (or odd) units of a, then of b.
template <int W, int U, bool Odd>
struct UnitAlternate {
  static constexpr int at(int i) {
    const int units = W / U, unit = i / U;
    const int half = units / 2;
    return (unit >= half ? W : 0) + ((unit % half) * 2 + (Odd ? 1 : 0)) * U + i % U;
  }
};

template <class P, int W, class V>
GP_INLINE V shuffled(V a, V b) {
  return shuffle(a, b, pattern<P>(std::make_integer_sequence<int, W>{}));
}

}  // namespace detail

// Transposes a matrix of W x W elements held in W native vectors.
template <class C>
GP_INLINE void transpose(Native<C> (&r)[Lanes<C>::kWidth]) {
  using detail::shuffled;
  using V = Native<C>;
  constexpr int W = Lanes<C>::kWidth;
  constexpr int U = 16 / sizeof(C);  // elements of a 128-bit unit
  // Inside units: U x U blocks of U neighbouring rows.
  for (int base = 0; base < W; base += U) {
    if constexpr (U == 4) {
      using Lo = detail::Interleave<W, U, 1, false>;
      using Hi = detail::Interleave<W, U, 1, true>;
      using Lo2 = detail::Interleave<W, U, 2, false>;
      using Hi2 = detail::Interleave<W, U, 2, true>;
      const V t0 = shuffled<Lo, W>(r[base], r[base + 1]);
      const V t1 = shuffled<Hi, W>(r[base], r[base + 1]);
      const V t2 = shuffled<Lo, W>(r[base + 2], r[base + 3]);
      const V t3 = shuffled<Hi, W>(r[base + 2], r[base + 3]);
      r[base] = shuffled<Lo2, W>(t0, t2);
      r[base + 1] = shuffled<Hi2, W>(t0, t2);
      r[base + 2] = shuffled<Lo2, W>(t1, t3);
      r[base + 3] = shuffled<Hi2, W>(t1, t3);
    } else {
      const V t0 = shuffled<detail::Interleave<W, U, 1, false>, W>(r[base], r[base + 1]);
      r[base + 1] = shuffled<detail::Interleave<W, U, 1, true>, W>(r[base], r[base + 1]);
      r[base] = t0;
    }
  }
  // Across units: the W/U x W/U matrix of units.
  if constexpr (W / U == 2) {
    for (int i = 0; i < U; ++i) {
      const V a = r[i], b = r[i + U];
      r[i] = shuffled<detail::UnitHalves<W, U, false>, W>(a, b);
      r[i + U] = shuffled<detail::UnitHalves<W, U, true>, W>(a, b);
    }
  } else if constexpr (W / U == 4) {
    for (int i = 0; i < U; ++i) {
      using Even = detail::UnitAlternate<W, U, false>;
      using Odd = detail::UnitAlternate<W, U, true>;
      const V a = r[i], b = r[i + U], c = r[i + 2 * U], d = r[i + 3 * U];
      const V ab0 = shuffled<Even, W>(a, b), ab1 = shuffled<Odd, W>(a, b);
      const V cd0 = shuffled<Even, W>(c, d), cd1 = shuffled<Odd, W>(c, d);
      r[i] = shuffled<Even, W>(ab0, cd0);
      r[i + 2 * U] = shuffled<Odd, W>(ab0, cd0);
      r[i + U] = shuffled<Even, W>(ab1, cd1);
      r[i + 3 * U] = shuffled<Odd, W>(ab1, cd1);
    }
  }
}

// ---- sixteen lanes of one tensor ---------------------------------------------------------------

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
      __builtin_prefetch(view.lane[l] + offset - kPrefetchSquares * kLanes, 0, 2);
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

// Calls put(lane, parts) for every used lane: its 16 elements in the order of their addresses.
template <class E, class Put>
GP_INLINE void for_each_row(const LaneView<E>& view, const Square<ComputeOf<E>>& square, Put put) {
  using C = ComputeOf<E>;
  constexpr int W = Lanes<C>::kWidth, kParts = Lanes<C>::kParts;
  const bool backwards = view.step < 0;
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
    for_each_row(view, square, [&](int lane, const Native<C>* parts) { writer.put(lane, parts); });
    writer.end_square();
  } else if (view.access == Access::kRows && count == kLanes) {
    const int64_t offset = view.step < 0 ? -first - (kLanes - 1) : first;
    for_each_row(view, square, [&](int lane, const Native<C>* parts) {
      for (int p = 0; p < kParts; ++p) store_part(view.lane[lane] + offset + p * W, parts[p]);
    });
  } else {
    for (int l = 0; l < view.lanes; ++l)
      for (int s = 0; s < count; ++s)
        store_element(view.lane[l] + (first + s) * view.step, square.at[s][l]);
  }
}

// One step of all lanes.
template <class E>
inline Lanes<ComputeOf<E>> load_step(const LaneView<E>& view, int64_t step) {
  alignas(64) ComputeOf<E> buffer[kLanes];
  for (int l = 0; l < kLanes; ++l) buffer[l] = load_element(view.lane[l] + step * view.step);
  return Lanes<ComputeOf<E>>::load(buffer);
}

}  // namespace gradplan
