// Sums of single elements by index: every member goes straight to the sum of its row.
//
// In the contract's order too a sum is one chain of additions in the order of the input, begun anew
// every 256 members, so nothing has to be sorted. Threads share out the rows, and each looks at all
// members: that is cheaper than to move them.
#pragma once

#include "rows/index_check.h"
#include "rows/row_sum.h"

namespace gradplan::rows {

template <class C>
struct ScalarSum {
  // -0 is where a sum can start: adding the first member gives that member.
  C block = C(-0.0);
  uint32_t count = 0;  // members of this block, and kLater if there was one before it

  static constexpr uint32_t kLater = 2 * kRowBlock;
  bool is_full() const { return (count & kRowBlock) != 0; }
};

template <class C>
class ScalarSums {
 public:
  static int64_t workspace_size(int64_t rows) {
    return (rows + kMostParts * kDummies) * int64_t(sizeof(ScalarSum<C>)) +
           rows * int64_t(sizeof(C));
  }

  ScalarSums(char* workspace, int64_t rows)
      : sums_(reinterpret_cast<ScalarSum<C>*>(workspace)),
        total_(reinterpret_cast<C*>(sums_ + rows + kMostParts * kDummies)),
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
        ScalarSum<C>* sums = sums_ + first + part * kDummies;
        C* total = total_ + first;
        add_all(value, stride, ids, first, last - first, sums, total);
        E* to = output.as<E>() + first * out_stride;
        for (int64_t row = 0; row < last - first; ++row, to += out_stride) {
          const ScalarSum<C>& s = sums[row];
          if (s.count == 0 || first + row == padding) {
            if (!accumulate) *to = E{};
            continue;
          }
          const C sum = s.count >= ScalarSum<C>::kLater ? total[row] + s.block : s.block;
          store_element(to, accumulate ? load_element(to) + sum : sum);
        }
      }
    });
  }

 private:
  static constexpr int64_t kMostParts = 4;
  // Members of other rows are added up too, where it does not matter: a branch would be
  // mispredicted. Several places, because a chain of additions waits for itself.
  static constexpr int64_t kDummies = 8;

  template <class E, class I>
  static void add_all(const E* value, int64_t stride, const IndexView<I>& ids, int64_t first,
                      int64_t rows, ScalarSum<C>* sums, C* total) {
    std::fill(sums, sums + rows + kDummies, ScalarSum<C>{});
    // The compiler adds it to every sum and then selects, which takes long if it is subnormal.
    std::fill(total, total + rows, C(0));
    for (int64_t i = 0; i < ids.count; ++i) {
      // Whatever is outside of our rows, below or above them, is large as an unsigned number.
      const uint64_t own = uint64_t(ids[i]) - uint64_t(first);
      const uint64_t dummy = uint64_t(rows) + uint64_t(i) % kDummies;
      const int64_t row = int64_t(std::min(own, dummy));
      ScalarSum<C>& s = sums[row];
      if (s.is_full()) [[unlikely]]
        begin_block(s, row < rows ? total + row : nullptr);
      s.block += load_element(value + i * stride);
      ++s.count;
    }
  }

  static void begin_block(ScalarSum<C>& s, C* total) {
    if (total != nullptr) *total = s.count < s.kLater ? s.block : *total + s.block;
    s = {.count = s.kLater};
  }

  ScalarSum<C>* sums_;
  C* total_;
  int64_t rows_;
};

}  // namespace gradplan::rows
