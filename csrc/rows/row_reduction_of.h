// Reductions of rows of one element type by one reducer. Each reducer is compiled by itself
// (row_sums.cc).
#pragma once

#include "lanes/visit.h"
#include "rows/narrow_rows.h"

namespace gradplan::rows {

template <class E, class Reducer>
class RowReductionOf final : public RowReduction {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;
  using Members = GatheredRows<E, Reducer>;
  static constexpr int kWidth = RowTypes<E>::kWidth;

 public:
  // `input` holds `rows` rows.
  RowReductionOf(const Reducer& reducer, const Operand& input, int64_t rows, const Operand& output,
                 bool accumulate, C* partial)
      : reducer_(reducer),
        input_(input.as<const E>()),
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
    const bool large = exceeds_caches((rows + output.shape[0]) * row_bytes);
    if (mode_ == kPacked && !accumulate && large && width_ % kWidth == 0) {
      const int64_t places =
          reinterpret_cast<intptr_t>(output_) | (out_row_stride_ * int64_t(sizeof(E)));
      stream_ = stream_unit<E>(places);
    }
    ahead_ = int(std::clamp<int64_t>(8192 / row_bytes, 4, kAhead));
  }

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
      if (!accumulate_ && row < at) empty(row, at, columns);
      row = at + 1;
      reduce(members(batch.offset + begin), end - begin, columns,
             {output_row(at, end - begin), nullptr});
      begin = end;
    }
    return row;
  }

  void empty(int64_t row, int64_t end, Columns columns) const override {
    const int64_t width = columns.end - columns.begin;
    if (out_column_stride_ == 1 && out_row_stride_ == width) {
      empty_span(output_ + row * width, (end - row) * width);
      return;
    }
    for (; row < end; ++row) {
      E* to = output_ + row * out_row_stride_;
      if (out_column_stride_ == 1) {
        empty_span(to + columns.begin, width);
      } else {
        for (int64_t c = columns.begin; c < columns.end; ++c)
          store_element(to + c * out_column_stride_, empty_value());
      }
    }
  }

  void reduce_blocks(const int64_t* offset, int count, Columns columns,
                     int64_t first) const override {
    int done = 0;
    if (mode_ == kScalar) done = reduce_whole_blocks_of_scalars(offset, count, first);
    for (; done < count; done += kRowBlock) {
      reduce(members(offset + done), std::min(kRowBlock, count - done), columns,
             {output_row(0, 0), partial_row(first + done / kRowBlock)});
    }
  }

  void fold(int64_t row, int64_t first, int64_t count, int64_t members,
            Columns columns) const override {
    const int64_t stride = partial_width(width_);
    const OutputRow<E, Reducer> to = output_row(row, members);
    for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
      const C* from = partial_row(first) + c;
      auto total = Lanes<C>::load(from);
      for (int64_t i = 1; i < count; ++i)
        total = reducer_.combine(total, Lanes<C>::load(from + i * stride));
      C buffer[kLanes];
      total.store(buffer);
      to.put_some(c, buffer, int(std::min<int64_t>(kLanes, columns.end - c)));
    }
  }

 private:
  enum Mode { kScalar, kPacked, kStrided };

  Members members(const int64_t* offset) const { return {input_, offset, ahead_, reducer_}; }

  OutputRow<E, Reducer> output_row(int64_t row, int64_t members) const {
    return {output_ + row * out_row_stride_,
            out_column_stride_,
            accumulate_,
            stream_,
            reducer_,
            members};
  }

  C* partial_row(int64_t block) const { return partial_ + block * partial_width(width_); }

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
    // Empty rows first, all at once, unless they go past the cache.
    const bool one_by_one = stream_ != StreamUnit::kNone;
    if (!accumulate_ && !one_by_one) empty(row, behind, {0, width_});
    NarrowRows<E, Reducer, P>(end_, reducer_)
        .write(batch, members(batch.offset), [&](int64_t at, int64_t count) {
          if (one_by_one && row < at) empty(row, at, {0, width_});
          row = at + 1;
          return output_row(at, count);
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

  // P vectors of up to a block of rows.
  template <int P>
  GP_INLINE void reduce_block(const Members& row, int64_t count, V (&result)[P]) const {
    constexpr int kBytes = P * kWidth * int(sizeof(E));
    row.template prefetch<kBytes>(0);
    for (int k = 0; k < P; ++k) result[k] = row.take(load_part(row(0) + k * kWidth), 0);
    for (int64_t i = 1; i < count; ++i) {
      row.template prefetch<kBytes>(i);
      for (int k = 0; k < P; ++k)
        result[k] = reducer_.combine(result[k], row.take(load_part(row(i) + k * kWidth), i));
    }
  }
  template <int P>
  __attribute__((noinline)) void combine_later_blocks(const Members& rows, int count,
                                                      V (&total)[P]) const {
    for (int first = kRowBlock; first < count; first += kRowBlock) {
      V block[P];
      reduce_block(rows.from(first), std::min(kRowBlock, count - first), block);
      for (int k = 0; k < P; ++k) total[k] = reducer_.combine(total[k], block[k]);
    }
  }

  // The contract's order for whatever load(i) gives.
  template <class Load>
  GP_INLINE auto reduce_by_blocks(int count, const Load& load) const {
    decltype(load(0)) total{};
    for (int first = 0; first < count; first += kRowBlock) {
      auto block = load(first);
      const int end = std::min(first + kRowBlock, count);
      for (int i = first + 1; i < end; ++i) block = reducer_.combine(block, load(i));
      total = first == 0 ? block : reducer_.combine(total, block);
    }
    return total;
  }

  using To = ResultRow<E, Reducer>;

  // Inline: a call for every run, most of which have a few members, is a sixth of the time.
  GP_INLINE void reduce(const Members& rows, int count, Columns columns, const To& to) const {
    if (mode_ == kPacked) {
      for_each_part(
          columns,
          [&](int64_t c, auto parts) {
            V total[parts];
            reduce_block(rows.at(c), std::min(count, kRowBlock), total);
            if (count > kRowBlock) [[unlikely]] {
              V all[parts];  // whose address is known elsewhere: `total` stays in registers
              std::copy_n(total, int(parts), all);
              combine_later_blocks(rows.at(c), count, all);
              std::copy_n(all, int(parts), total);
            }
            to.put(c, total);
          },
          [&](int64_t c, int) { reduce_end(rows, count, c, to); });
    } else if (mode_ == kScalar) {
      const C total =
          reduce_by_blocks(count, [&](int i) { return rows.take(load_element(rows(i)), i); });
      to.put_some(0, &total, 1);
    } else {
      reduce_strided(rows, count, columns, to);
    }
  }

  __attribute__((noinline)) void reduce_end(const Members& rows, int count, int64_t column,
                                            const To& to) const {
    const V total = reduce_by_blocks(
        count, [&](int i) GP_INLINE_LAMBDA { return rows.take(end_.load(rows(i)), i); });
    end_.put(to, column, total);
  }

  __attribute__((noinline)) void reduce_strided(const Members& rows, int count, Columns columns,
                                                const To& to) const {
    for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
      const int some = int(std::min<int64_t>(kLanes, columns.end - c));
      const auto total = reduce_by_blocks(count, [&](int i) {
        const E* from = rows(i) + c * column_stride_;
        return rows.take(load_any(from, column_stride_, some, C{0}), i);
      });
      C buffer[kLanes];
      total.store(buffer);
      to.put_some(c, buffer, some);
    }
  }

  // One chain of operations waits for itself; those of several blocks do not. Returns how many
  // members were reduced.
  int reduce_whole_blocks_of_scalars(const int64_t* offset, int count, int64_t first) const {
    constexpr int kChains = 8;
    constexpr int kStep = kChains * kRowBlock;
    const auto member = [&](int i) GP_INLINE_LAMBDA {
      return reducer_.take(load_element(input_ + offset[i]), offset[i]);
    };
    int done = 0;
    for (; count - done >= kStep; done += kStep) {
      C result[kChains];
      for (int k = 0; k < kChains; ++k) result[k] = member(done + k * kRowBlock);
      for (int i = 1; i < kRowBlock; ++i)
        for (int k = 0; k < kChains; ++k)
          result[k] = reducer_.combine(result[k], member(done + k * kRowBlock + i));
      for (int k = 0; k < kChains; ++k) *partial_row(first + done / kRowBlock + k) = result[k];
    }
    return done;
  }

  C empty_value() const { return reducer_.template empty<C>(); }

  void empty_span(E* to, int64_t count) const {
    const C value = empty_value();
    if (stream_ != StreamUnit::kNone) {
      const V vector[1] = {broadcast<V>(value)};
      for (int64_t i = 0; i < count; i += kWidth) stream_parts(to + i, vector, stream_);
    } else if (value == C(0)) {
      std::memset(static_cast<void*>(to), 0, size_t(count) * sizeof(E));
    } else {
      for (int64_t i = 0; i < count; ++i) store_element(to + i, value);
    }
  }

  const Reducer reducer_;
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

template <class Reducer>
std::unique_ptr<RowReduction> make_row_reduction(const Reducer& reducer, const Operand& input,
                                                 int64_t rows, const Operand& output,
                                                 bool accumulate, char* partial) {
  return visit_element(input.dtype, [&](auto* e) -> std::unique_ptr<RowReduction> {
    using E = std::remove_pointer_t<decltype(e)>;
    return std::make_unique<RowReductionOf<E, Reducer>>(reducer, input, rows, output, accumulate,
                                                        reinterpret_cast<ComputeOf<E>*>(partial));
  });
}

}  // namespace gradplan::rows
