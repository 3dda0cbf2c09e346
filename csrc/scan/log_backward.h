// logcumsumexp backward. Position 0 is the end of the forward scan.
#pragma once

#include "scan/log_scan.h"

namespace gradplan::scan {

// dx = t exp(x - y), t[q] = dy[q] + exp(y[q] - y[q-1]) t[q-1]. Inputs: dy, y, x.
template <class Compute>
struct LogBackward : LevelGains {
  using C = Compute;
  static constexpr int kInputs = 3, kSummaryInputs = 2;

  RowValues before = {};  // y one position before the rows

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>& inputs, const LaneRange& range,
             int64_t lane, int lanes, int64_t, const C*) const {
    memory.level = before_lanes(inputs, 1, range, lane, lanes, before);
  }

  // exp(y - previous), 0 where y is -inf: everything in front of it is masked.
  template <class V>
  GP_INLINE static V factor(const V& y, const V& previous) {
    using T = ElementOf<V>;
    const V lowest = V(-std::numeric_limits<T>::infinity());
    return select(y == lowest, V(T(0)), exp_difference(y, previous));
  }

  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    return l + factor(gain.to, gain.from) * v;
  }
  template <bool Emit, bool Summary, class State>
  void square(State& s, Square<C>* squares, int64_t, int count, bool first) const {
    using V = Lanes<C>;
    V a[kLanes];
#pragma GCC unroll 1
    for (int i = 0; i < count; ++i)
      a[i] = factor(squares[1].get(i), i == 0 ? s.memory.level : squares[1].get(i - 1));
    s.memory.level = squares[1].get(count - 1);
    if constexpr (Summary) {
      V l = s.l;
      for (int i = 0; i < count; ++i) {
        const V dy = squares[0].get(i);
        l = first && i == 0 ? dy : dy + a[i] * l;
      }
      s.l = l;
    }
    if constexpr (Emit) {
      V t = s.t;
      for (int i = 0; i < count; ++i) {
        const V dy = squares[0].get(i), next = dy + a[i] * t;
        t = first && i == 0 ? select(s.has_t, next, dy) : next;
        a[i] = t;
      }
      s.t = t;
      const V lowest = V(-std::numeric_limits<C>::infinity());
#pragma GCC unroll 1
      for (int i = 0; i < count; ++i) {
        const V x = squares[2].get(i);
        squares[3].set(i,
                       select(x == lowest, V(C(0)), a[i] * exp_difference(x, squares[1].get(i))));
      }
    }
  }
};

}  // namespace gradplan::scan
