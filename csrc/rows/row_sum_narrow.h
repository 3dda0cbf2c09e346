// Sums of rows of a few vectors, or of one element.
//
// Most runs are short, their lengths are unpredictable, and here a mispredicted branch costs more
// than a member. So all members of a batch go through one loop without such a branch, which leaves
// the sums in a buffer; a second loop writes them.
#pragma once

#include "rows/row_parts.h"

namespace gradplan::rows {

constexpr int kNarrowParts = 4;  // rows of up to so many vectors

// The sums of runs that have at most one block each. P vectors per row; 0: one element, which then
// sits in the first lane of one.
template <class E, int P>
class NarrowSums {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;
  using IntVector = Native<IntOf<C>>;
  static constexpr int kWidth = RowTypes<E>::kWidth;
  static constexpr int kParts = std::max(P, 1);

 public:
  explicit NarrowSums(const RowEnd<E>& end) : end_(end) {}

  // to(row) is where a row goes; it is called for ascending rows.
  template <class To>
  GP_INLINE void write(const Batch& batch, const GatheredRows<E>& members, const To& to) const {
    constexpr int kGroup = 128;  // runs; their sums stay in the first-level cache
    V sum[kGroup][kParts];
    // -0 is where a sum can start: adding the first member gives that member, signed zeros
    // included.
    const V start = C(-0.0) - V{};
    int i = 0;
    for (int first = 0; first < batch.runs; first += kGroup) {
      const int count = std::min(kGroup, batch.runs - first);
      const int end = batch.end[first + count - 1];
      V total[kParts];
      for (V& v : total) v = start;
      for (int r = 0; i < end; ++i) {
        members.template prefetch<kParts * kWidth* int(sizeof(E))>(i);
        add(members(i), total);
        for (int k = 0; k < kParts; ++k) sum[r][k] = total[k];
        const int32_t last = batch.last[i];
        r += last;
        const auto keep = (IntVector)(last - detail::Int{} == 0);
        for (V& v : total) v = keep ? v : start;
      }
      for (int r = 0; r < count; ++r) put(to(batch.row[first + r]), sum[r]);
    }
  }

 private:
  GP_INLINE void add(const E* row, V (&to)[kParts]) const {
    if constexpr (P == 0) {
      to[0] += V{load_element(row)};
    } else if constexpr (P == 1) {
      to[0] += end_.load(row);
    } else {
      for (int k = 0; k < P - 1; ++k) to[k] += load_part(row + k * kWidth);
      to[P - 1] += load_part(row + end_.start);
    }
  }

  template <class Row>
  GP_INLINE void put(const Row& row, V (&sum)[kParts]) const {
    if constexpr (P == 0) {
      const C value = sum[0][0];
      row.put_some(0, &value, 1);
    } else if (end_.width == P * kWidth) {
      row.put(0, sum);
    } else {
      for (int k = 0; k < P - 1; ++k) {
        V part[1] = {sum[k]};
        row.put(k * kWidth, part);
      }
      end_.put(row, (P - 1) * kWidth, sum[P - 1]);
    }
  }

  const RowEnd<E> end_;
};

}  // namespace gradplan::rows
