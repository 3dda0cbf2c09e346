// sparsemax of up to 64 neighbouring columns at once, one per lane.
#pragma once

#include "softmax/sparsemax_forward.h"

namespace gradplan::softmax {

// A short list of candidates for every column.
template <class C>
struct ColumnLists {
  using I = IntOf<C>;
  static constexpr int kColumns = kStripGroups * kLanes;
  static constexpr int kCapacity = 512 / int(sizeof(I));
  alignas(64) I value[kColumns][kCapacity];
  int size[kColumns] = {};

  // Raises the threshold to the solution for one column's list, and drops what is below it.
  Above<C> refine(int column, I& threshold) {
    return raise<C>(threshold, [&](I t) {
      I* list = value[column];
      Above<C> above;
      for (int i = 0; i < size[column]; ++i) {
        if (list[i] <= t) continue;
        above.sum += list[i];
        list[above.count++] = list[i];
      }
      size[column] = int(above.count);
      return above;
    });
  }
};

template <class E>
struct StripSolver {
  using C = ComputeOf<E>;
  using I = IntOf<C>;
  using V = Lanes<C>;
  static constexpr int kColumns = kStripGroups * kLanes;

  const Strip<E>& x;
  const int64_t n;
  const int groups;
  V top[kStripGroups];                // NaN where the column is to be NaN
  alignas(64) I threshold[kColumns];  // lower bounds; in the end, the fixed points
  alignas(64) C tau[kColumns];

  static constexpr int64_t kRows = kUninterrupted / kColumns;

  StripSolver(const Strip<E>& x, int64_t n) : x(x), n(n), groups(x.groups()) {}

  void find_tops() {
    Mask<C> sound[kStripGroups];
    for (int g = 0; g < groups; ++g) {
      top[g] = V(-kInfinity<C>);
      sound[g] = Mask<C>(-1);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i % kRows == 0) check_interruption();
      for (int g = 0; g < groups; ++g) {
        const V v = x.load(i, g, -kInfinity<C>);
        top[g] = select(v > top[g], v, top[g]);
        sound[g] = sound[g] & (v < V(kInfinity<C>));
      }
    }
    for (int g = 0; g < groups; ++g) {
      const auto fine = sound[g] & (top[g] > V(-kInfinity<C>));
      top[g] = select(fine, top[g], V(std::numeric_limits<C>::quiet_NaN()));
    }
  }

  // False if some column has more candidates than its list holds.
  bool gather(ColumnLists<C>& lists) {
    alignas(64) C bound[kColumns];
    for (int c = 0; c < groups * kLanes; ++c)
      bound[c] = loose_bound(C(top[c / kLanes][c % kLanes]), threshold[c]);
    bool fits = true;
    for (int64_t i = 0; i < n && fits; ++i) {
      if (i % kRows == 0) check_interruption();
      for (int g = 0; g < groups; ++g) {
        const V v = x.load(i, g, -kInfinity<C>);
        if (!any(v > V::load(bound + g * kLanes))) continue;
        const auto fixed = to_fixed(v - top[g]);
        alignas(64) I q[kLanes];
        fixed.store(q);
        unsigned bits = mask_bits(fixed > Lanes<I>::load(threshold + g * kLanes));
        for (; bits != 0; bits &= bits - 1) {
          const int lane = __builtin_ctz(bits), column = g * kLanes + lane;
          lists.value[column][lists.size[column]++] = q[lane];
          if (lists.size[column] < lists.kCapacity) continue;
          lists.refine(column, threshold[column]);
          fits = fits && lists.size[column] <= lists.kCapacity / 2;
          bound[column] = loose_bound(C(top[g][lane]), threshold[column]);
        }
      }
    }
    return fits;
  }

  // One Newton step over the strip itself, for supports that fit no list. True if it changed
  // something.
  bool step() {
    Above<C> sums[kColumns];
    for (int64_t begin = 0; begin < n; begin += AboveLanes<C>::kMost) {
      const int64_t end = std::min(begin + AboveLanes<C>::kMost, n);
      AboveLanes<C> above[kStripGroups];
      for (int64_t i = begin; i < end; ++i) {
        if (i % kRows == 0) check_interruption();
        for (int g = 0; g < groups; ++g) {
          const auto q = to_fixed(x.load(i, g, -kInfinity<C>) - top[g]);
          above[g].add(q, q > Lanes<I>::load(threshold + g * kLanes));
        }
      }
      for (int c = 0; c < groups * kLanes; ++c) sums[c] += above[c / kLanes].lane(c % kLanes);
    }
    bool changed = false;
    for (int c = 0; c < groups * kLanes; ++c) {
      if (sums[c].count == 0) continue;  // a column of NaN
      const I next = sums[c].threshold();
      changed = changed || next != threshold[c];
      if (next == threshold[c]) tau[c] = sums[c].tau(next);
      threshold[c] = next;
    }
    return changed;
  }

  void solve() {
    find_tops();
    std::fill_n(threshold, kColumns, -kFixedOne<C>);
    std::fill_n(tau, kColumns, std::numeric_limits<C>::quiet_NaN());
    ColumnLists<C> lists;
    if (!gather(lists)) {
      while (step()) continue;
      return;
    }
    for (int c = 0; c < groups * kLanes; ++c) {
      const Above<C> above = lists.refine(c, threshold[c]);
      if (above.count != 0) tau[c] = above.tau(threshold[c]);
    }
  }
};

template <class E>
__attribute__((noinline)) void sparsemax_strip(const Strip<E>& x, const Strip<E>& y, int64_t n) {
  using V = Lanes<ComputeOf<E>>;
  StripSolver<E> solver(x, n);
  solver.solve();
  for (int64_t i = 0; i < n; ++i) {
    if (i % solver.kRows == 0) check_interruption();
    for (int g = 0; g < solver.groups; ++g)
      y.store(i, g, project(x.load(i, g, 0), solver.top[g], V::load(solver.tau + g * kLanes)));
  }
}

}  // namespace gradplan::softmax
