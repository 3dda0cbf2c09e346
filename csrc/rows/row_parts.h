// Pieces that reductions of rows are made of: rows to read, places to write, vectors in between.
#pragma once

#include "ffi/tensor.h"
#include "memory/streams.h"
#include "rows/row_reduction.h"

namespace gradplan::rows {

template <class E>
struct RowTypes {
  using C = ComputeOf<E>;
  using V = Native<C>;
  static constexpr int kWidth = Lanes<C>::kWidth;
};

// (P vectors side by side are plain arrays everywhere: a structure of them is copied through
// memory, in halves.) The unit for vectors at addresses that are sums of multiples of the bits of
// `places`.
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
template <class E, class Reducer>
struct GatheredRows {
  const E* base;
  const int64_t* offset;
  int ahead;
  Reducer reducer;

  GP_INLINE const E* operator()(int64_t i) const { return base + offset[i]; }
  GP_INLINE GatheredRows at(int64_t column) const {
    return {base + column, offset, ahead, reducer};
  }
  GP_INLINE GatheredRows from(int i) const { return {base, offset + i, ahead, reducer}; }
  template <class V>
  GP_INLINE V take(const V& value, int64_t i) const {
    return reducer.take(value, offset[i]);
  }

  // To the second-level cache: it has room for many more requests than the first (on Zen 4, rows of
  // 512 bytes in random order took 10.5 ms instead of 14.3).
  template <int kBytes>
  GP_INLINE void prefetch(int64_t i) const {
    const char* p = reinterpret_cast<const char*>(base + offset[i + ahead]);
    for (int b = 0; b < kBytes; b += 64) __builtin_prefetch(p + b, 0, 2);
  }
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

// A row of the output: results are finished there, with one rounding.
template <class E, class Reducer>
struct OutputRow {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;

  E* row;
  int64_t column_stride;
  bool accumulate;
  StreamUnit stream;
  Reducer reducer;
  int64_t members;

  template <int P>
  GP_INLINE void put(int64_t column, V (&result)[P]) const {
    constexpr int kWidth = RowTypes<E>::kWidth;
    E* to = row + column;
    if (accumulate)
      for (int k = 0; k < P; ++k)
        result[k] = reducer.combine(load_part(to + k * kWidth), result[k]);
    for (int k = 0; k < P; ++k) result[k] = reducer.finish(result[k], members);
    if (stream != StreamUnit::kNone) {
      stream_parts(to, result, stream);
    } else {
      for (int k = 0; k < P; ++k) store_part(to + k * kWidth, result[k]);
    }
  }
  GP_INLINE void put_one(int64_t column, C result) const {
    E* to = row + column * column_stride;
    if (accumulate) result = reducer.combine(load_element(to), result);
    store_element(to, reducer.finish(result, members));
  }
  __attribute__((noinline)) void put_some(int64_t column, const C* result, int count) const {
#pragma GCC unroll 1
    for (int k = 0; k < count; ++k) put_one(column + k, result[k]);
  }
};

// A row of the output, or one of partial results in the compute type.
template <class E, class Reducer>
struct ResultRow {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;

  OutputRow<E, Reducer> output;
  C* partial;  // null: the output

  template <int P>
  GP_INLINE void put(int64_t column, V (&result)[P]) const {
    if (partial == nullptr) return output.put(column, result);
    for (int k = 0; k < P; ++k)
      std::memcpy(partial + column + k * RowTypes<E>::kWidth, &result[k], sizeof(V));
  }
  void put_some(int64_t column, const C* result, int count) const {
    if (partial == nullptr) return output.put_some(column, result, count);
    std::copy(result, result + count, partial + column);
  }
};

}  // namespace gradplan::rows
