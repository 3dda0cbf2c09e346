// Reductions of single elements by index: every member goes straight to the result of its row.
//
// In the contract's order too a result is one chain of operations in the order of the input, begun
// anew every 256 members, so nothing has to be sorted. Threads share out the rows, and each looks
// at all members: that is cheaper than to move them.
#pragma once

#include "rows/index_check.h"
#include "rows/row_reduction.h"

namespace gradplan::rows {

template <class C>
struct ScalarResult {
  C block;
  uint32_t count;  // members of this block, and kLater for each block before it

  static constexpr uint32_t kLater = 2 * kRowBlock;
  bool is_full() const { return (count & kRowBlock) != 0; }
  uint32_t of_next_block() const { return count - kRowBlock + kLater; }
  int64_t members() const { return int64_t(count / kLater) * kRowBlock + int64_t(count % kLater); }
};

template <class C, class Reducer>
class ScalarReduction {
 public:
  static int64_t workspace_size(int64_t rows) {
    return (rows + kMostParts * kDummies) * int64_t(sizeof(Result)) + rows * int64_t(sizeof(C));
  }

  ScalarReduction(const Reducer& reducer, char* workspace, int64_t rows)
      : reducer_(reducer),
        results_(reinterpret_cast<Result*>(workspace)),
        total_(reinterpret_cast<C*>(results_ + rows + kMostParts * kDummies)),
        rows_(rows) {}

  template <class E, class I>
  void run(const Operand& input, const IndexView<I>& ids, int64_t padding, const Operand& output,
           bool accumulate) const {
    const int64_t parts = std::min<int64_t>({num_threads(), kMostParts, rows_});
    const int64_t bytes = ids.count * int64_t(sizeof(E) + sizeof(I)) + rows_ * 16;
    const E* value = input.as<const E>();
    const int64_t stride = input.stride[0], out_stride = output.stride[0];
    parallel_for(parts, 1, bytes, [&](int64_t part, int64_t end) {
      for (; part < end; ++part) {
        const int64_t first = part * rows_ / parts, last = (part + 1) * rows_ / parts;
        Result* results = results_ + first + part * kDummies;
        C* total = total_ + first;
        combine_all(value, stride, ids, first, last - first, results, total);
        E* to = output.as<E>() + first * out_stride;
        for (int64_t row = 0; row < last - first; ++row, to += out_stride) {
          const Result& s = results[row];
          if (s.count == 0 || first + row == padding) {
            if (!accumulate) store_element(to, reducer_.template empty<C>());
            continue;
          }
          C all = s.count >= Result::kLater ? reducer_.combine(total[row], s.block) : s.block;
          if (accumulate) all = reducer_.combine(load_element(to), all);
          store_element(to, reducer_.finish(all, s.members()));
        }
      }
    });
  }

 private:
  using Result = ScalarResult<C>;
  static constexpr int64_t kMostParts = 4;
  // Members of other rows are combined too, where it does not matter: a branch would be
  // mispredicted. Several places, because a chain of operations waits for itself.
  static constexpr int64_t kDummies = 8;

  template <class E, class I>
  void combine_all(const E* value, int64_t stride, const IndexView<I>& ids, int64_t first,
                   int64_t rows, Result* results, C* total) const {
    const C identity = reducer_.template identity<C>();
    std::fill(results, results + rows + kDummies, Result{identity, 0});
    // The compiler adds it to every sum and then selects, which takes long if it is subnormal.
    std::fill(total, total + rows, C(0));
    for (int64_t begin = 0; begin < ids.count; begin += kUninterrupted) {
      check_interruption();
      const int64_t end = std::min(begin + kUninterrupted, ids.count);
      combine_some(value, stride, ids, begin, end, first, rows, results, total);
    }
  }

  // Members from `begin` to `end`. (Not inlined: a call amid its loop costs a third more.)
  template <class E, class I>
  __attribute__((noinline)) void combine_some(const E* value, int64_t stride,
                                              const IndexView<I>& ids, int64_t begin, int64_t end,
                                              int64_t first, int64_t rows, Result* results,
                                              C* total) const {
    const C identity = reducer_.template identity<C>();
    for (int64_t i = begin; i < end; ++i) {
      // Whatever is outside of our rows, below or above them, is large as an unsigned number.
      const uint64_t own = uint64_t(ids[i]) - uint64_t(first);
      const uint64_t dummy = uint64_t(rows) + uint64_t(i) % kDummies;
      const int64_t row = int64_t(std::min(own, dummy));
      Result& s = results[row];
      if (s.is_full()) [[unlikely]] {
        if (row < rows)
          total[row] = s.count < s.kLater ? s.block : reducer_.combine(total[row], s.block);
        s = {identity, s.of_next_block()};
      }
      s.block =
          reducer_.combine(s.block, reducer_.take(load_element(value + i * stride), i * stride));
      ++s.count;
    }
  }

  const Reducer reducer_;
  Result* results_;
  C* total_;
  int64_t rows_;
};

}  // namespace gradplan::rows
