// Sums of gathered rows: the arithmetic of segment sums, apart from who the members of a row are.
//
// The members of a segment are cut into blocks of 256 from the segment's own start, a block is summed
// serially starting with its first member, and block sums are added serially in order.
#pragma once

#include "tensor.h"

namespace gradplan {

constexpr int kBlock = 256;
constexpr int kBatch = 2 * kBlock;
constexpr int kAhead = 64;  // rows that are requested from memory before their turn

struct Columns {
  int64_t begin, end;
};

// Whole runs of members: run r sums the members [end[r - 1], end[r]) into output row row[r].
struct Batch {
  int runs;
  int end[kBatch];
  int64_t row[kBatch];
  // Where the members' rows start, in elements of the input; kAhead more belong to later members.
  int64_t offset[kBatch + kAhead];
};

// The element type is behind virtual functions, one call per batch, so that the side of the indices is
// not compiled once per element type.
class RowSums {
 public:
  // Writes the rows of the batch and, unless accumulating, zeros to the rows between `row` and them.
  // Returns the row behind the last.
  virtual int64_t write(const Batch& batch, int64_t row, Columns columns) const = 0;
  virtual void zero(int64_t row, int64_t end, Columns columns) const = 0;
  // Sums consecutive blocks into consecutive partial sums; only the last may be short.
  virtual void sum_blocks(const int64_t* offset, int count, Columns columns,
                          int64_t first) const = 0;
  virtual void fold(int64_t row, int64_t first, int64_t count, Columns columns) const = 0;

  // Everything that was streamed is visible to the other threads.
  void finish() const {
    if (stream_) stream_fence();
  }

 protected:
  ~RowSums() = default;
  bool stream_ = false;
};

template <class E>
class RowSumsOf final : public RowSums {
  using C = ComputeOf<E>;
  using V = Native<C>;
  static constexpr int kWidth = Lanes<C>::kWidth;

 public:
  // `rows` is the number of rows that offsets may address, from `input`.
  RowSumsOf(const E* input, int64_t rows, int64_t row_stride, int64_t column_stride,
            const Operand& output, bool accumulate, C* partial)
      : input_(input),
        column_stride_(column_stride),
        output_(output.as<E>()),
        out_row_stride_(output.stride[0]),
        out_column_stride_(output.stride[1]),
        width_(output.shape[1]),
        accumulate_(accumulate),
        partial_(partial) {
    const bool packed = column_stride_ == 1 && out_column_stride_ == 1;
    mode_ = width_ == 1 ? kScalar : packed ? kPacked : kStrided;
    dense_output_ = width_ == 1 ? out_row_stride_ == 1
                                : out_column_stride_ == 1 && out_row_stride_ == width_;
    last_vector_ = input + std::max<int64_t>(0, (rows - 1) * row_stride) + width_ - kWidth;
    constexpr int64_t kPart = kPartBytes<E>;
    stream_ = mode_ == kPacked && !accumulate && width_ % kWidth == 0 &&
              output.shape[0] * width_ * int64_t(sizeof(E)) > kStreamBytes &&
              reinterpret_cast<uintptr_t>(output_) % kPart == 0 &&
              out_row_stride_ * int64_t(sizeof(E)) % kPart == 0;
    ahead_ = int(std::clamp<int64_t>(8192 / (width_ * int64_t(sizeof(E))), 4, kAhead));
    if (getenv("AHEAD")) ahead_ = atoi(getenv("AHEAD"));
  }

  static int64_t partial_stride(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

  int64_t write(const Batch& batch, int64_t row, Columns columns) const override {
    int begin = 0;
    for (int r = 0; r < batch.runs; ++r) {
      const int64_t at = batch.row[r];
      const int end = batch.end[r];
      if (!accumulate_ && row < at) zero(row, at, columns);
      row = at + 1;
      const Sink to{output_ + at * out_row_stride_, out_column_stride_, accumulate_, stream_};
      sum(Gathered{input_, batch.offset + begin, ahead_}, end - begin, columns, to);
      begin = end;
    }
    return row;
  }

  void zero(int64_t row, int64_t end, Columns columns) const override {
    if (dense_output_ && columns.end - columns.begin == width_) {
      zero_span(output_ + row * width_, (end - row) * width_);
      return;
    }
    for (; row < end; ++row) {
      E* to = output_ + row * out_row_stride_;
      if (out_column_stride_ == 1) {
        zero_span(to + columns.begin, columns.end - columns.begin);
      } else {
        for (int64_t c = columns.begin; c < columns.end; ++c) to[c * out_column_stride_] = E{};
      }
    }
  }

  void sum_blocks(const int64_t* offset, int count, Columns columns,
                  int64_t first) const override {
    int64_t block = first;
    int done = 0;
    if (mode_ == kScalar) {
      // One chain of additions waits for itself; eight blocks at a time do not.
      constexpr int kChains = 8;
      for (; count - done >= kChains * kBlock; done += kChains * kBlock, block += kChains) {
        C sum[kChains];
        for (int k = 0; k < kChains; ++k)
          sum[k] = load_element(input_ + offset[done + k * kBlock]);
        for (int i = 1; i < kBlock; ++i)
          for (int k = 0; k < kChains; ++k)
            sum[k] += load_element(input_ + offset[done + k * kBlock + i]);
        for (int k = 0; k < kChains; ++k) *partial_row(block + k) = sum[k];
      }
    }
    for (; done < count; done += kBlock, ++block) {
      sum(Gathered{input_, offset + done, ahead_}, std::min(kBlock, count - done), columns,
          PartialSink{partial_row(block)});
    }
  }

  void fold(int64_t row, int64_t first, int64_t count, Columns columns) const override {
    const Sink to{output_ + row * out_row_stride_, out_column_stride_, accumulate_, stream_};
    const Stacked from{partial_row(first), partial_stride(width_)};
    if (mode_ == kScalar) {
      C sum = *from(0);
      for (int64_t i = 1; i < count; ++i) sum += *from(i);
      to.put_some(0, &sum, 1);
      return;
    }
    for_each_part(columns, [&](int64_t c, auto parts) {
      V total[parts];
      sum_serially(from.at(c), count, total);
      if (mode_ == kPacked) {
        to.put(c, total);
      } else {
        put_lanes(c, total, int(parts) * kWidth, to);
      }
    }, [&](int64_t c, int some) {
      V total[1];
      sum_serially(from.at(c), count, total);  // partial rows have room for whole vectors
      put_lanes(c, total, some, to);
    });
  }

 private:
  // Rows at the batch's offsets, the later ones prefetched.
  struct Gathered {
    const E* base;
    const int64_t* offset;
    int ahead;

    GP_INLINE const E* operator()(int64_t i) const { return base + offset[i]; }
    GP_INLINE Gathered at(int64_t column) const { return {base + column, offset, ahead}; }
    GP_INLINE Gathered from(int i) const { return {base, offset + i, ahead}; }
    template <int kBytes>
    GP_INLINE void prefetch(int64_t i) const {
      if (ahead == 0) return;
      const char* p = reinterpret_cast<const char*>(base + offset[i + ahead]);
      for (int b = 0; b < kBytes; b += 64) __builtin_prefetch(p + b, 0, 2);
    }
  };

  // Partial sums, one behind the other.
  struct Stacked {
    const C* base;
    int64_t stride;

    GP_INLINE const C* operator()(int64_t i) const { return base + i * stride; }
    GP_INLINE Stacked at(int64_t column) const { return {base + column, stride}; }
    template <int>
    GP_INLINE void prefetch(int64_t) const {}
  };

  // Finished sums go to a row of the output, rounded once.
  struct Sink {
    E* row;
    int64_t column_stride;
    bool accumulate;
    bool stream;

    template <int P>
    GP_INLINE void put(int64_t c, V (&sum)[P]) const {
      E* to = row + c;
      if (accumulate)
        for (int p = 0; p < P; ++p) sum[p] = load_part(to + p * kWidth) + sum[p];
      if (stream) {
        for (int p = 0; p < P; ++p) stream_part(to + p * kWidth, sum[p]);
      } else {
        for (int p = 0; p < P; ++p) store_part(to + p * kWidth, sum[p]);
      }
    }
    void put_some(int64_t c, const C* sum, int count) const {
      for (int k = 0; k < count; ++k) {
        E* to = row + (c + k) * column_stride;
        store_element(to, accumulate ? load_element(to) + sum[k] : sum[k]);
      }
    }
  };

  struct PartialSink {
    C* row;

    template <int P>
    GP_INLINE void put(int64_t c, V (&sum)[P]) const {
      std::memcpy(row + c, sum, sizeof sum);
    }
    void put_some(int64_t c, const C* sum, int count) const {
      std::copy(sum, sum + count, row + c);
    }
  };

  template <int P>
  static void put_lanes(int64_t c, const V (&sum)[P], int count, const Sink& to) {
    C buffer[P * kWidth];
    std::memcpy(buffer, sum, sizeof buffer);
    to.put_some(c, buffer, count);
  }

  enum Mode { kScalar, kPacked, kStrided };

  C* partial_row(int64_t block) const { return partial_ + block * partial_stride(width_); }

  // f(column, P) for pieces of P native vectors, as many as stay in registers; rest(column, count) for
  // what is left.
  template <class F, class Rest>
  GP_INLINE static void for_each_part(Columns columns, const F& f, const Rest& rest) {
    int64_t c = columns.begin;
    for (; c + 8 * kWidth <= columns.end; c += 8 * kWidth) f(c, std::integral_constant<int, 8>{});
    if (c + 4 * kWidth <= columns.end) {
      f(c, std::integral_constant<int, 4>{});
      c += 4 * kWidth;
    }
    if (c + 2 * kWidth <= columns.end) {
      f(c, std::integral_constant<int, 2>{});
      c += 2 * kWidth;
    }
    if (c + kWidth <= columns.end) {
      f(c, std::integral_constant<int, 1>{});
      c += kWidth;
    }
    if (c < columns.end) rest(c, int(columns.end - c));
  }

  template <int P, class Rows>
  GP_INLINE static void sum_serially(const Rows& row, int64_t count, V (&sum)[P]) {
    constexpr int kBytes = P * kWidth * int(sizeof(E));
    row.template prefetch<kBytes>(0);
    for (int p = 0; p < P; ++p) sum[p] = load_part(row(0) + p * kWidth);
    for (int64_t i = 1; i < count; ++i) {
      row.template prefetch<kBytes>(i);
      for (int p = 0; p < P; ++p) sum[p] += load_part(row(i) + p * kWidth);
    }
  }

  // The contract's order for any number of members; `block(first, count)` is the serial sum.
  template <class T, class Block>
  GP_INLINE static T sum_by_blocks(int count, const Block& block) {
    T total = block(0, std::min(count, kBlock));
    for (int first = kBlock; first < count; first += kBlock)
      total = total + block(first, std::min(kBlock, count - first));
    return total;
  }

  template <int P>
  struct Vectors {
    V v[P];
    GP_INLINE Vectors operator+(const Vectors& o) const {
      Vectors r;
      for (int p = 0; p < P; ++p) r.v[p] = v[p] + o.v[p];
      return r;
    }
  };

  template <class To>
  GP_INLINE void sum(const Gathered& rows, int count, Columns columns, const To& to) const {
    if (mode_ == kPacked) {
      for_each_part(
          columns,
          [&](int64_t c, auto parts) {
            auto total = sum_by_blocks<Vectors<parts>>(count, [&](int first, int n) {
              Vectors<parts> block;
              sum_serially(rows.at(c).from(first), n, block.v);
              return block;
            });
            to.put(c, total.v);
          },
          [&](int64_t c, int some) { sum_rest(rows, count, c, some, to); });
    } else if (mode_ == kScalar) {
      const C total = sum_by_blocks<C>(count, [&](int first, int n) {
        const Gathered row = rows.from(first);
        C sum = load_element(row(0));
        for (int i = 1; i < n; ++i) sum += load_element(row(i));
        return sum;
      });
      to.put_some(0, &total, 1);
    } else {
      sum_strided(rows, count, columns, to);
    }
  }

  // The last columns, fewer than a vector: the vector that ends with the row or, in a row too narrow
  // for that, begins with it, reading on into the next row's memory.
  template <class To>
  __attribute__((noinline)) void sum_rest(const Gathered& rows, int count, int64_t column, int some,
                                          const To& to) const {
    const int64_t start = std::max<int64_t>(width_ - kWidth, 0);
    const auto load = [&](const E* p) {
      if (p <= last_vector_) return load_part(p);
      E copy[kWidth] = {};
      std::copy(p, p + width_, copy);
      return load_part(copy);
    };
    const auto total = sum_by_blocks<Vectors<1>>(count, [&](int first, int n) {
      const Gathered row = rows.at(start).from(first);
      V sum = load(row(0));
      for (int i = 1; i < n; ++i) {
        row.template prefetch<1>(i);
        sum += load(row(i));
      }
      return Vectors<1>{sum};
    });
    alignas(64) C buffer[kWidth];
    std::memcpy(buffer, &total.v[0], sizeof buffer);
    to.put_some(column, buffer + (column - start), some);
  }

  template <class To>
  __attribute__((noinline)) void sum_strided(const Gathered& rows, int count, Columns columns,
                                             const To& to) const {
    for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
      const int some = int(std::min<int64_t>(kLanes, columns.end - c));
      const auto load = [&](const E* p) {
        return load_some(p + c * column_stride_, column_stride_, some, C{0});
      };
      const auto total = sum_by_blocks<Lanes<C>>(count, [&](int first, int n) {
        const Gathered row = rows.from(first);
        Lanes<C> sum = load(row(0));
        for (int i = 1; i < n; ++i) sum = sum + load(row(i));
        return sum;
      });
      alignas(64) C buffer[kLanes];
      total.store(buffer);
      to.put_some(c, buffer, some);
    }
  }

  void zero_span(E* to, int64_t count) const {
    if (stream_) {
      for (int64_t i = 0; i < count; i += kWidth) stream_part(to + i, V{});
    } else {
      std::memset(static_cast<void*>(to), 0, size_t(count) * sizeof(E));
    }
  }

  const E* input_;
  int64_t column_stride_;
  E* output_;
  int64_t out_row_stride_;
  int64_t out_column_stride_;
  int64_t width_;
  bool accumulate_;
  C* partial_;
  Mode mode_;
  bool dense_output_;        // rows one behind the other
  const E* last_vector_;     // the last address from which a whole vector is the input's memory
  int ahead_;
};

}  // namespace gradplan
