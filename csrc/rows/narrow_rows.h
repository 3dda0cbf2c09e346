// Reductions of rows of a few vectors, or of one element.
//
// Most runs are short, their lengths are unpredictable, and here a mispredicted branch costs more
// than a member. So all members of a batch go through one loop without such a branch, which leaves
// the results in a buffer; a second loop writes them.
#pragma once

#include "rows/row_parts.h"

namespace gradplan::rows {

constexpr int kNarrowParts = 4;  // rows of up to so many vectors

// Runs that have at most one block each. P vectors per row; 0: one element, which then sits in the
// first lane of one.
template <class E, class Reducer, int P>
class NarrowRows {
  using C = typename RowTypes<E>::C;
  using V = typename RowTypes<E>::V;
  using IntVector = Native<IntOf<C>>;
  using Members = GatheredRows<E, Reducer>;
  static constexpr int kWidth = RowTypes<E>::kWidth;
  static constexpr int kParts = std::max(P, 1);

 public:
  NarrowRows(const RowEnd<E>& end, const Reducer& reducer) : end_(end), reducer_(reducer) {}

  // to(row, members) is where a row goes; it is called for ascending rows.
  template <class To>
  GP_INLINE void write(const Batch& batch, const Members& members, const To& to) const {
    constexpr int kRuns = 128;  // their results stay in the first-level cache
    V result[kRuns][kParts];
    const V start = broadcast<V>(reducer_.template identity<C>());
    int i = 0;
    for (int first = 0; first < batch.runs; first += kRuns) {
      const int count = std::min(kRuns, batch.runs - first);
      const int end = batch.end[first + count - 1];
      V total[kParts];
      for (V& v : total) v = start;
      for (int r = 0; i < end; ++i) {
        members.template prefetch<kParts * kWidth* int(sizeof(E))>(i);
        combine(members, i, total);
        for (int k = 0; k < kParts; ++k) result[r][k] = total[k];
        const int32_t last = batch.last[i];
        r += last;
        const auto keep = (IntVector)(last - detail::Int{} == 0);
        for (V& v : total) v = keep ? v : start;
      }
      for (int r = 0; r < count; ++r) {
        const int begin = first + r == 0 ? 0 : batch.end[first + r - 1];
        put(to(batch.row[first + r], batch.end[first + r] - begin), result[r]);
      }
    }
  }

 private:
  GP_INLINE void combine(const Members& members, int i, V (&to)[kParts]) const {
    const E* row = members(i);
    const auto one = [&](int k, const V& value) GP_INLINE_LAMBDA {
      to[k] = reducer_.combine(to[k], members.take(value, i));
    };
    if constexpr (P == 0) {
      one(0, V{load_element(row)});
    } else if constexpr (P == 1) {
      one(0, end_.load(row));
    } else {
      for (int k = 0; k < P - 1; ++k) one(k, load_part(row + k * kWidth));
      one(P - 1, load_part(row + end_.start));
    }
  }

  template <class Row>
  GP_INLINE void put(const Row& row, V (&result)[kParts]) const {
    if constexpr (P == 0) {
      row.put_one(0, result[0][0]);
    } else if (end_.width == P * kWidth) {
      row.put(0, result);
    } else {
      for (int k = 0; k < P - 1; ++k) {
        V part[1] = {result[k]};
        row.put(k * kWidth, part);
      }
      end_.put(row, (P - 1) * kWidth, result[P - 1]);
    }
  }

  const RowEnd<E> end_;
  const Reducer reducer_;
};

}  // namespace gradplan::rows
