// Sums of rows of one element type.
#pragma once

#include "rows/row_sum_narrow.h"

namespace gradplan::rows {

template <class E>
class RowSumsOf final : public RowSums {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;
  static constexpr int kWidth = RowTypes<E>::kWidth;

 public:
  // `input` holds `rows` rows.
  RowSumsOf(const Operand& input, int64_t rows, const Operand& output, bool accumulate, C* partial)
      : input_(input.as<const E>()),
        column_stride_(input.stride[1]),
        output_(output.as<E>()),
        out_row_stride_(output.stride[0]),
        out_column_stride_(output.stride[1]),
        width_(output.shape[1]),
        accumulate_(accumulate),
        partial_(partial),
        end_(input_, rows, input.stride[0], width_) {
    if (width_ == 1) out_column_stride_ = column_stride_ = 1;  // whatever they are
    const bool packed = column_stride_ == 1 && out_column_stride_ == 1;
    mode_ = width_ == 1 ? kScalar : packed ? kPacked : kStrided;
    const int64_t row_bytes = width_ * int64_t(sizeof(E));
    const bool large = output.shape[0] * row_bytes > kStreamBytes;
    if (mode_ == kPacked && !accumulate && large && width_ % kWidth == 0) {
      const int64_t places =
          reinterpret_cast<intptr_t>(output_) | (out_row_stride_ * int64_t(sizeof(E)));
      stream_ = stream_unit<E>(places);
    }
    ahead_ = int(std::clamp<int64_t>(8192 / row_bytes, 4, kAhead));
  }

  // Room for whole vectors, so that partial sums are read without care for the last columns.
  static int64_t partial_stride(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

  int64_t write(const Batch& batch, int64_t row, Columns columns) const override {
    if (mode_ != kStrided && width_ <= kNarrowParts * kWidth && all_one_block(batch)) {
      if (mode_ == kScalar) return write_narrow<0>(batch, row);
      switch ((width_ + kWidth - 1) / kWidth) {
        case 1: return write_narrow<1>(batch, row);
        case 2: return write_narrow<2>(batch, row);
        case 3: return write_narrow<3>(batch, row);
        default: return write_narrow<4>(batch, row);
      }
    }
    int begin = 0;
    for (int r = 0; r < batch.runs; ++r) {
      const int64_t at = batch.row[r];
      const int end = batch.end[r];
      if (!accumulate_ && row < at) zero(row, at, columns);
      row = at + 1;
      sum(members(batch.offset + begin), end - begin, columns, output_row(at));
      begin = end;
    }
    return row;
  }

  void zero(int64_t row, int64_t end, Columns columns) const override {
    const int64_t width = columns.end - columns.begin;
    if (out_column_stride_ == 1 && out_row_stride_ == width) {
      zero_span(output_ + row * width, (end - row) * width);
      return;
    }
    for (; row < end; ++row) {
      E* to = output_ + row * out_row_stride_;
      if (out_column_stride_ == 1) {
        zero_span(to + columns.begin, width);
      } else {
        for (int64_t c = columns.begin; c < columns.end; ++c) to[c * out_column_stride_] = E{};
      }
    }
  }

  void sum_blocks(const int64_t* offset, int count, Columns columns, int64_t first) const override {
    int done = 0;
    if (mode_ == kScalar) done = sum_whole_blocks_of_scalars(offset, count, first);
    for (; done < count; done += kRowBlock) {
      sum(members(offset + done), std::min(kRowBlock, count - done), columns,
          PartialRow<E>{partial_row(first + done / kRowBlock)});
    }
  }

  void fold(int64_t row, int64_t first, int64_t count, Columns columns) const override {
    const StackedRows<C> from{partial_row(first), partial_stride(width_)};
    const OutputRow<E> to = output_row(row);
    const auto put_lanes = [&](int64_t c, const auto& sum, int lanes) {
      C buffer[8 * kWidth];
      std::memcpy(buffer, &sum, sizeof sum);
      to.put_some(c, buffer, lanes);
    };
    for_each_part(
        columns,
        [&](int64_t c, auto parts) {
          V sum[parts];
          sum_serially(from.at(c), count, sum);
          if (mode_ == kPacked) {
            to.put(c, sum);
          } else {
            put_lanes(c, sum, parts * kWidth);
          }
        },
        [&](int64_t c, int lanes) {
          V sum[1];
          sum_serially(from.at(c), count, sum);
          put_lanes(c, sum, lanes);
        });
  }

 private:
  enum Mode { kScalar, kPacked, kStrided };

  GatheredRows<E> members(const int64_t* offset) const { return {input_, offset, ahead_}; }

  OutputRow<E> output_row(int64_t row) const {
    return {output_ + row * out_row_stride_, out_column_stride_, accumulate_, stream_};
  }

  C* partial_row(int64_t block) const { return partial_ + block * partial_stride(width_); }

  static bool all_one_block(const Batch& batch) {
    int begin = 0, longest = 0;
    for (int r = 0; r < batch.runs; ++r) {
      longest = std::max(longest, batch.end[r] - begin);
      begin = batch.end[r];
    }
    return longest <= kRowBlock;
  }

  template <int P>
  __attribute__((noinline)) int64_t write_narrow(const Batch& batch, int64_t row) const {
    const int64_t behind = batch.row[batch.runs - 1] + 1;
    // Zeros first, all at once, unless they go past the cache.
    const bool zeros_between = stream_ != StreamUnit::kNone;
    if (!accumulate_ && !zeros_between) zero(row, behind, {0, width_});
    NarrowSums<E, P>(end_).write(batch, members(batch.offset), [&](int64_t at) {
      if (zeros_between && row < at) zero(row, at, {0, width_});
      row = at + 1;
      return output_row(at);
    });
    return behind;
  }

  // f(column, P) for pieces of P vectors, as many as stay in registers; rest(column, count) for the
  // columns that are left.
  template <class F, class Rest>
  GP_INLINE static void for_each_part(Columns columns, const F& f, const Rest& rest) {
    int64_t c = columns.begin;
    const auto piece = [&](auto parts) {
      f(c, parts);
      c += parts * kWidth;
    };
    while (c + 8 * kWidth <= columns.end) piece(std::integral_constant<int, 8>{});
    if (c + 4 * kWidth <= columns.end) piece(std::integral_constant<int, 4>{});
    if (c + 2 * kWidth <= columns.end) piece(std::integral_constant<int, 2>{});
    if (c + kWidth <= columns.end) piece(std::integral_constant<int, 1>{});
    if (c < columns.end) rest(c, int(columns.end - c));
  }

  // P vectors of `count` rows, of E or of partial sums.
  template <int P, class Rows>
  GP_INLINE static void sum_serially(const Rows& row, int64_t count, V (&sum)[P]) {
    constexpr int kBytes = P * kWidth * int(sizeof(E));
    row.template prefetch<kBytes>(0);
    load_parts(row(0), sum);
    for (int64_t i = 1; i < count; ++i) {
      row.template prefetch<kBytes>(i);
      add_parts(row(i), sum);
    }
  }

  // The contract's order, for P vectors, and for anything that block(first, count) sums serially.
  template <int P>
  GP_INLINE static void sum_by_blocks(const GatheredRows<E>& rows, int count, V (&total)[P]) {
    sum_serially(rows, std::min(count, kRowBlock), total);
    for (int first = kRowBlock; first < count; first += kRowBlock) {
      V block[P];
      sum_serially(rows.from(first), std::min(kRowBlock, count - first), block);
      for (int k = 0; k < P; ++k) total[k] += block[k];
    }
  }
  template <class Block>
  GP_INLINE static auto sum_by_blocks(int count, const Block& block) {
    auto total = block(0, std::min(count, kRowBlock));
    for (int first = kRowBlock; first < count; first += kRowBlock)
      total = total + block(first, std::min(kRowBlock, count - first));
    return total;
  }

  template <class To>
  GP_INLINE void sum(const GatheredRows<E>& rows, int count, Columns columns, const To& to) const {
    if (mode_ == kPacked) {
      for_each_part(
          columns,
          [&](int64_t c, auto parts) {
            V total[parts];
            sum_by_blocks(rows.at(c), count, total);
            to.put(c, total);
          },
          [&](int64_t c, int) { sum_end(rows, count, c, to); });
    } else if (mode_ == kScalar) {
      const C total = sum_by_blocks(count, [&](int first, int n) {
        C sum = load_element(rows(first));
        for (int i = first + 1; i < first + n; ++i) sum += load_element(rows(i));
        return sum;
      });
      to.put_some(0, &total, 1);
    } else {
      sum_strided(rows, count, columns, to);
    }
  }

  template <class To>
  __attribute__((noinline)) void sum_end(const GatheredRows<E>& rows, int count, int64_t column,
                                         const To& to) const {
    const auto total = sum_by_blocks(count, [&](int first, int n) {
      V sum = end_.load(rows(first));
      for (int i = first + 1; i < first + n; ++i) sum += end_.load(rows(i));
      return sum;
    });
    end_.put(to, column, total);
  }

  template <class To>
  __attribute__((noinline)) void sum_strided(const GatheredRows<E>& rows, int count,
                                             Columns columns, const To& to) const {
    for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
      const int some = int(std::min<int64_t>(kLanes, columns.end - c));
      const auto load = [&](int i) {
        return load_some(rows(i) + c * column_stride_, column_stride_, some, C{0});
      };
      const auto total = sum_by_blocks(count, [&](int first, int n) {
        auto sum = load(first);
        for (int i = first + 1; i < first + n; ++i) sum = sum + load(i);
        return sum;
      });
      C buffer[kLanes];
      total.store(buffer);
      to.put_some(c, buffer, some);
    }
  }

  // One chain of additions waits for itself; those of several blocks do not. Returns how many
  // members were summed.
  int sum_whole_blocks_of_scalars(const int64_t* offset, int count, int64_t first) const {
    constexpr int kChains = 8;
    constexpr int kStep = kChains * kRowBlock;
    int done = 0;
    for (; count - done >= kStep; done += kStep) {
      C sum[kChains];
      for (int k = 0; k < kChains; ++k) sum[k] = load_element(input_ + offset[done + k * kRowBlock]);
      for (int i = 1; i < kRowBlock; ++i)
        for (int k = 0; k < kChains; ++k)
          sum[k] += load_element(input_ + offset[done + k * kRowBlock + i]);
      for (int k = 0; k < kChains; ++k) *partial_row(first + done / kRowBlock + k) = sum[k];
    }
    return done;
  }

  void zero_span(E* to, int64_t count) const {
    if (stream_ != StreamUnit::kNone) {
      const V zero[1] = {};
      for (int64_t i = 0; i < count; i += kWidth) stream_parts(to + i, zero, stream_);
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
  RowEnd<E> end_;
  Mode mode_;
  int ahead_;
};

}  // namespace gradplan::rows
