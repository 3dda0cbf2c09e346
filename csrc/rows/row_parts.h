// Pieces that sums of rows are made of: rows to read, places to write, vectors in between.
#pragma once

#include "ffi/tensor.h"
#include "memory/streams.h"
#include "rows/row_sum.h"

namespace gradplan::rows {
using ffi::Operand;

template <class E>
struct RowTypes {
  using C = ComputeOf<E>;
  using V = Native<C>;
  static constexpr int kWidth = Lanes<C>::kWidth;
};

// P vectors side by side are plain arrays: a structure of them is copied through memory, in halves.
template <class E, class V, int P>
GP_INLINE void load_parts(const E* p, V (&to)[P]) {
  for (int k = 0; k < P; ++k) to[k] = load_part(p + k * RowTypes<E>::kWidth);
}

template <class E, class V, int P>
GP_INLINE void add_parts(const E* p, V (&to)[P]) {
  for (int k = 0; k < P; ++k) to[k] += load_part(p + k * RowTypes<E>::kWidth);
}

// The unit for vectors at addresses that are sums of multiples of the bits of `places`.
template <class E>
StreamUnit stream_unit(int64_t places) {
  if (kPartBytes<E> < 16 || places % 16 != 0) return StreamUnit::kNone;
  return places % kPartBytes<E> == 0 ? StreamUnit::kVector : StreamUnit::k16;
}

template <class E, class V, int P>
GP_INLINE void stream_parts(E* to, const V (&v)[P], StreamUnit unit) {
  constexpr int kWidth = RowTypes<E>::kWidth;
  if (unit == StreamUnit::kVector) {
    for (int k = 0; k < P; ++k) stream_part(to + k * kWidth, v[k]);
    return;
  }
  for (int k = 0; k < P; ++k) {
    alignas(64) const auto packed = pack_part(to, v[k]);
    for (int b = 0; b + 16 <= int(sizeof packed); b += 16)
      stream_bytes(reinterpret_cast<char*>(to + k * kWidth) + b,
                   reinterpret_cast<const char*>(&packed) + b, std::integral_constant<int, 16>{});
  }
}

// Rows at offsets that were collected, the later ones prefetched: in random order, and in input
// order as well, because the processor does not follow rows that are read a few columns at a time.
template <class E>
struct GatheredRows {
  const E* base;
  const int64_t* offset;
  int ahead;

  GP_INLINE const E* operator()(int64_t i) const { return base + offset[i]; }
  GP_INLINE GatheredRows at(int64_t column) const { return {base + column, offset, ahead}; }
  GP_INLINE GatheredRows from(int i) const { return {base, offset + i, ahead}; }

  // To the second-level cache: it has room for many more requests than the first (on Zen 4, rows of
  // 512 bytes in random order took 10.5 ms instead of 14.3).
  template <int kBytes>
  GP_INLINE void prefetch(int64_t i) const {
    const char* p = reinterpret_cast<const char*>(base + offset[i + ahead]);
    for (int b = 0; b < kBytes; b += 64) __builtin_prefetch(p + b, 0, 2);
  }
};

// Rows one behind the other.
template <class E>
struct StackedRows {
  const E* base;
  int64_t stride;

  GP_INLINE const E* operator()(int64_t i) const { return base + i * stride; }
  GP_INLINE StackedRows at(int64_t column) const { return {base + column, stride}; }
  template <int>
  GP_INLINE void prefetch(int64_t) const {}
};

// The columns of a row that do not fill a vector. They are read by the vector that ends with the
// row or, in a row too narrow for that, begins with it and reads on into the memory of the next
// row.
template <class E>
struct RowEnd {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;
  static constexpr int kWidth = RowTypes<E>::kWidth;

  int64_t width;
  int64_t start;           // the vector's first column
  const E* last_in_reach;  // the last address from which a whole vector is the tensor's memory

  RowEnd(const E* base, int64_t rows, int64_t row_stride, int64_t width)
      : width(width),
        start(std::max<int64_t>(width - kWidth, 0)),
        last_in_reach(rows == 0  // and perhaps no address
                          ? base
                          : base + std::max<int64_t>(0, (rows - 1) * row_stride) + width - kWidth) {
  }

  GP_INLINE V load(const E* row) const {
    const E* p = row + start;
    if (p <= last_in_reach) return load_part(p);
    E copy[kWidth] = {};
    std::copy(p, p + width, copy);
    return load_part(copy);
  }

  // The columns from `column` on.
  template <class To>
  GP_INLINE void put(const To& to, int64_t column, V v) const {
    C buffer[kWidth];
    std::memcpy(buffer, &v, sizeof buffer);
    to.put_some(column, buffer + (column - start), int(width - column));
  }
};

// A row of the output: sums are finished there, with one rounding.
template <class E>
struct OutputRow {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;

  E* row;
  int64_t column_stride;
  bool accumulate;
  StreamUnit stream;

  template <int P>
  GP_INLINE void put(int64_t column, V (&sum)[P]) const {
    constexpr int kWidth = RowTypes<E>::kWidth;
    E* to = row + column;
    if (accumulate) add_parts(to, sum);
    if (stream != StreamUnit::kNone) {
      stream_parts(to, sum, stream);
    } else {
      for (int k = 0; k < P; ++k) store_part(to + k * kWidth, sum[k]);
    }
  }
  void put_some(int64_t column, const C* sum, int count) const {
    for (int k = 0; k < count; ++k) {
      E* to = row + (column + k) * column_stride;
      store_element(to, accumulate ? load_element(to) + sum[k] : sum[k]);
    }
  }
};

// A row of partial sums, in the compute type.
template <class E>
struct PartialRow {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;

  C* row;

  template <int P>
  GP_INLINE void put(int64_t column, V (&sum)[P]) const {
    for (int k = 0; k < P; ++k)
      std::memcpy(row + column + k * RowTypes<E>::kWidth, &sum[k], sizeof(V));
  }
  void put_some(int64_t column, const C* sum, int count) const {
    std::copy(sum, sum + count, row + column);
  }
};

}  // namespace gradplan::rows
