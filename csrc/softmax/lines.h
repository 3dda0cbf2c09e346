// How the sparsemax kernels visit the lines along the softmax axis: a line at a time where the axis
// is contiguous, and 16 lines at a time, one per lane, where another dimension is.
#pragma once

#include "memory/access.h"
#include "memory/geometry.h"
#include "memory/streams.h"
#include "memory/threads.h"

namespace gradplan::softmax {
using namespace ffi;
using namespace lanes;
using namespace memory;

// One line of one operand whose elements are neighbours in memory. Passed by value, so that stores
// through one cannot seem to change another.
template <class E>
struct Line {
  using C = ComputeOf<E>;
  static constexpr bool kContiguous = true;
  E* data;
  int64_t n;

  GP_INLINE E* at(int64_t i) const { return data + i; }
  GP_INLINE Lanes<C> load(int64_t i) const { return load_lanes(at(i)); }
  GP_INLINE Lanes<C> load(int64_t i, int count, C fill) const {
    return load_any(at(i), 1, count, fill);
  }
  GP_INLINE void store(int64_t i, int count, const Lanes<C>& v) const {
    store_any(at(i), 1, count, v);
  }
  Line part(int64_t begin, int64_t end) const { return {at(begin), end - begin}; }
  int64_t bytes() const { return n * int64_t(sizeof(E)); }
};

// One whose elements are apart. Every access is a call anyway, so what uses it is compiled once per
// compute type.
template <class Compute>
struct StridedLine {
  using C = Compute;
  static constexpr bool kContiguous = false;
  struct Access {
    Lanes<C> (*load)(const char* p, int64_t stride, int count, C fill);
    void (*store)(char* p, int64_t stride, int count, const Lanes<C>& v);
    int64_t item;
  };
  char* data;
  int64_t n;
  int64_t step;  // elements
  const Access* access;

  template <class E>
  static constexpr Access kAccess = {[](const char* p, int64_t stride, int count, C fill) {
                                       return load_apart(reinterpret_cast<const E*>(p), stride,
                                                         count, fill);
                                     },
                                     [](char* p, int64_t stride, int count, const Lanes<C>& v) {
                                       store_apart(reinterpret_cast<E*>(p), stride, count, v);
                                     },
                                     sizeof(E)};

  char* at(int64_t i) const { return data + i * step * access->item; }
  Lanes<C> load(int64_t i) const { return load(i, kLanes, C(0)); }
  Lanes<C> load(int64_t i, int count, C fill) const {
    return access->load(at(i), step, count, fill);
  }
  void store(int64_t i, int count, const Lanes<C>& v) const {
    access->store(at(i), step, count, v);
  }
  StridedLine part(int64_t begin, int64_t end) const {
    return {at(begin), end - begin, step, access};
  }
};

template <class L>
using ComputeOfLine = typename L::C;

// Writes f(i, count) for every i of the output line in steps of 16, past the caches if `stream`
// (the fence is the caller's), but zeros where is_zero(i) says so of all 64 elements from i.
template <class L, class IsZero, class F>
GP_INLINE void write_line(L out, bool stream, IsZero&& is_zero, F&& f) {
  using V = Lanes<ComputeOfLine<L>>;
  auto some = [&](int64_t i, int count) GP_INLINE_LAMBDA { out.store(i, count, f(i, count)); };
  auto write = [&](int64_t head, auto streaming) GP_INLINE_LAMBDA {
    auto put = [&](int64_t i, const V& v) GP_INLINE_LAMBDA {
      if constexpr (streaming)
        stream_lanes(out.at(i), v);
      else
        out.store(i, kLanes, v);
    };
    constexpr int kSpan = 4 * kLanes;
    int64_t i = 0;
    for (; i < head; i += kLanes) some(i, int(std::min<int64_t>(kLanes, head - i)));
    for (i = head; i + kSpan <= out.n; i += kSpan) {
      if (is_zero(i))
        for (int j = 0; j < kSpan; j += kLanes) put(i + j, V(0));
      else
        for (int j = 0; j < kSpan; j += kLanes) put(i + j, f(i + j, kLanes));
    }
    for (; i < out.n; i += kLanes) some(i, int(std::min<int64_t>(kLanes, out.n - i)));
  };
  if constexpr (L::kContiguous)
    if (stream) return write(std::min(out.n, elements_to_line(out.data)), std::true_type{});
  write(0, std::false_type{});
}

// Neighbouring lines of one operand: lane l of group g is column 16 g + l.
constexpr int kStripGroups = 4;

template <class E>
struct Strip {
  E* data;
  int64_t step;   // from one position of the axis to the next
  int64_t pitch;  // from one column to the next
  int columns;
  bool stream = false;  // write past the caches

  // Whole lines only: a partial one costs more past the caches than in them.
  void stream_if_aligned() {
    stream = pitch == 1 && columns % kLanes == 0 && elements_to_line(data) == 0 &&
             step * int64_t(sizeof(E)) % 64 == 0;
  }
  int groups() const { return (columns + kLanes - 1) / kLanes; }
  GP_INLINE int count(int g) const { return std::min(kLanes, columns - g * kLanes); }
  GP_INLINE E* at(int64_t i, int g) const { return data + i * step + g * kLanes * pitch; }
  GP_INLINE Lanes<ComputeOf<E>> load(int64_t i, int g, ComputeOf<E> fill) const {
    return load_any(at(i, g), pitch, count(g), fill);
  }
  GP_INLINE void store(int64_t i, int g, const Lanes<ComputeOf<E>>& v) const {
    if (stream)
      stream_lanes(at(i, g), v);
    else
      store_any(at(i, g), pitch, count(g), v);
  }
};

template <class E>
bool has_contiguous_lines(const Geometry<E>& geometry) {
  return std::all_of(geometry.step.begin(), geometry.step.begin() + geometry.operands,
                     [](int64_t s) { return s == 1; });
}

// Fewer lines than threads, and each so long that it is worth all of them.
template <class E>
bool has_long_lines(const Geometry<E>& geometry) {
  constexpr int64_t kLongLineBytes = 1 << 20;
  return geometry.rows < num_threads() && geometry.n * int64_t(sizeof(E)) >= kLongLineBytes &&
         has_contiguous_lines(geometry);
}

template <class E>
Line<E> line_of(const Geometry<E>& geometry, int64_t row, int operand) {
  return {geometry.base[operand] + geometry.row_offsets(row)[operand], geometry.n};
}

// Calls f(piece, begin, end) for at most kLinePieces pieces of one long line, on all threads.
constexpr int kLinePieces = 64;

template <class L, class F>
void in_pieces(L line, F&& f) {
  const int64_t length = (line.n / kLinePieces / kLanes + 1) * kLanes;
  parallel_for((line.n + length - 1) / length, 1, line.bytes(), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) f(p, p * length, std::min((p + 1) * length, line.n));
    stream_fence();
  });
}

// Below this, 16 contiguous lines at once are faster in spite of the strided loads.
constexpr int64_t kShortLine = 16;

// Calls line(lines[K]) or strip(strips[K]) for all of a problem, on all threads.
template <int K, class E, class OnLine, class OnStrip>
void visit_lines(const Geometry<E>& geometry, OnLine&& line, OnStrip&& strip) {
  const int64_t rows = geometry.rows, n = geometry.n;
  if (rows == 0 || n == 0) return;
  const int64_t bytes = geometry.bytes() * K;
  const bool contiguous = has_contiguous_lines(geometry);
  const int64_t columns = geometry.outer.extent.empty() ? 1 : geometry.outer.extent.back();

  if ((contiguous && n >= kShortLine) || columns < kLanes) {
    const int64_t grain = long_grain(rows, (1 << 16) / (n * int64_t(sizeof(E))));
    parallel_for(rows, grain, bytes, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto offset = geometry.row_offsets(r);
        if (contiguous) {
          Line<E> lines[K];
          for (int k = 0; k < K; ++k) lines[k] = {geometry.base[k] + offset[k], n};
          line(lines);
        } else {
          using Strided = StridedLine<ComputeOf<E>>;
          Strided lines[K];
          for (int k = 0; k < K; ++k)
            lines[k] = {reinterpret_cast<char*>(geometry.base[k] + offset[k]), n, geometry.step[k],
                        &Strided::template kAccess<E>};
          line(lines);
        }
      }
      stream_fence();
    });
    return;
  }

  // Wide strips use whole lines of memory; narrow ones keep all threads busy. The first one ends
  // where a line of the output begins.
  const auto& pitch = geometry.outer.stride.back();
  const int64_t wide = kStripGroups * kLanes;
  const int64_t width = rows / wide >= 2 * num_threads() ? wide : kLanes;
  const int64_t lead = pitch[K - 1] == 1 ? elements_to_line(geometry.base[K - 1]) % width : 0;
  const int64_t first = lead > 0 ? lead - width : 0;
  const int64_t strips = (columns - first + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / (n * width * int64_t(sizeof(E))));
  parallel_for(rows / columns * strips, grain, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t from = first + t % strips * width;
      const int64_t column = std::max<int64_t>(from, 0);
      const auto offset = geometry.row_offsets(t / strips * columns + column);
      Strip<E> parts[K];
      for (int k = 0; k < K; ++k)
        parts[k] = {geometry.base[k] + offset[k], geometry.step[k], pitch[k],
                    int(std::min(from + width, columns) - column)};
      if (exceeds_caches(geometry.moved())) parts[K - 1].stream_if_aligned();
      strip(parts);
    }
    stream_fence();
  });
}

}  // namespace gradplan::softmax
