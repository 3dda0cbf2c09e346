// logcumsumexp: y = M + log(S), M the running maximum and S the sum of exp(x - M), which is a
// first-order recurrence with factors in [0, 1] (they differ from 1 only where the maximum rises).
#pragma once

#include "lanes/exp_log.h"
#include "lanes/mask_bits.h"
#include "lanes/operations.h"
#include "scan/extremes.h"
#include "scan/recurrence.h"

namespace gradplan::scan {

// exp of what is hardly ever above 64, which the shorter sequence serves.
template <class T>
GP_INLINE Lanes<T> exp_mostly_low(const Lanes<T>& x) {
  if (mask_bits(x > Lanes<T>(T(64))) != 0) [[unlikely]]
    return gp_exp(x);
  return gp_exp_low(x);
}
template <class T>
  requires std::is_floating_point_v<T>
GP_INLINE T exp_mostly_low(T x) {
  return gp_exp(x);
}

// exp(a - b), 1 where a equals b (two infinities of one sign included).
template <class V>
GP_INLINE V exp_difference(const V& a, const V& b) {
  using T = ElementOf<V>;
  return exp_mostly_low(select(a == b, V(T(0)), a - b));
}

// What the policies of logcumsumexp share: a step remembers a level (the running maximum, or y),
// and a carry passes through a block with a factor that the levels at its two ends determine.
struct LevelGains {
  static constexpr int kOutputs = 1, kAhead = -1;

  template <class V>
  struct Memory {
    V level;
  };
  template <class V>
  struct Gain {
    V from, to;  // the level before the block, and that of its last step
  };

  template <class M, class S>
  void finish_input(const M&, S*, int) const {}
  template <class V>
  static Gain<V> start(const Memory<V>& memory) {
    return {memory.level, memory.level};
  }
  template <class V>
  static void finish(Gain<V>& gain, const Memory<V>& memory) {
    gain.to = memory.level;
  }
  template <class V>
  static Gain<V> compose(const Gain<V>& later, const Gain<V>& earlier) {
    return {earlier.from, later.to};
  }
  template <class V>
  static void pack(const Gain<V>& gain, V* fields) {
    fields[0] = gain.from;
    fields[1] = gain.to;
  }
  template <class V>
  static Gain<V> unpack(const V* fields) {
    return {fields[0], fields[1]};
  }
};

template <class Compute>
struct LogScanPolicy : LevelGains {
  using C = Compute;
  static constexpr int kInputs = 1, kSummaryInputs = 1;

  RowValues before = {};  // the running maximum that comes into whole rows, if any does
  bool any_sum = false;   // whether S may be anything

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>&, const LaneRange&, int64_t lane,
             int lanes, int64_t, const C* remembered) const {
    memory.level = remembered         ? Lanes<C>::load(remembered)
                   : before.present() ? before.load_lanes<C>(lane, lanes)
                                      : Maximum::identity<Lanes<C>>();
  }

  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    return l + exp_difference(gain.from, gain.to) * v;
  }
  // The running maximum after each step, and the factors and summands of S.
  struct Terms {
    Lanes<C> maximum[kLanes], a[kLanes], b[kLanes];
  };

  // Hasty arithmetic is right unless a NaN comes up: that of the input, or the difference of two
  // infinities. Without rises, which are rare, the maximum is `level` and all factors are 1.
  template <bool Hasty, bool Rises>
  GP_INLINE static bool find_terms(Terms& terms, const Lanes<C>& level, const Square<C>& square,
                                   int count) {
    using V = Lanes<C>;
    if constexpr (Rises) {
      V running = level;
      for (int i = 0; i < count; ++i) {
        const V x = square.get(i);
        running = Hasty ? select(x > running, x, running) : Maximum::apply(running, x);
        terms.maximum[i] = running;
      }
    }
    MaskOf<V> met_nan(IntOf<C>(0));
#pragma GCC unroll 1
    for (int i = 0; i < count; ++i) {
      const V x = square.get(i), m = Rises && i > 0 ? terms.maximum[i - 1] : level;
      V d = Hasty ? x - m : select(x == m, V(C(0)), x - m);
      if constexpr (Rises)  // -|d|
        d = bitcast<C>(bitcast<IntOf<C>>(d) | bitcast<IntOf<C>>(V(C(-0.0))));
      if constexpr (Hasty) met_nan = met_nan | (d != d);
      const V e = gp_exp_low(d);
      if constexpr (Rises) {
        const auto rises = x > m;
        terms.a[i] = select(rises, e, V(C(1)));
        terms.b[i] = select(rises, V(C(1)), e);
      } else {
        terms.b[i] = e;
      }
    }
    return !Hasty || mask_bits(met_nan) == 0;
  }

  // S at every step, which takes the place of its summands, and M + log(S) to the output.
  template <bool Emit, bool Summary, bool Rises, class State>
  GP_INLINE void sum_up(State& s, Terms& terms, Square<C>* squares, int count, bool first) const {
    using V = Lanes<C>;
    const auto pass = [&](int i, const V& carry) {
      return terms.b[i] + (Rises ? terms.a[i] * carry : carry);
    };
    V l = s.l, t = s.t;
    for (int i = 0; i < count; ++i) {
      const V b = terms.b[i];
      if constexpr (Summary) l = first && i == 0 ? b : pass(i, l);
      if constexpr (Emit) {
        t = first && i == 0 ? select(s.has_t, pass(i, t), b) : pass(i, t);
        terms.b[i] = t;
      }
    }
    if constexpr (Summary) s.l = l;
    if constexpr (Emit) {
      s.t = t;
      const V level = s.memory.level;
      // S is at least 1 and finite, or the maximum is NaN, unless the caller said what comes in.
      if (any_sum) {
#pragma GCC unroll 1
        for (int i = 0; i < count; ++i)
          squares[1].set(i, (Rises ? terms.maximum[i] : level) + gp_log(terms.b[i]));
        return;
      }
#pragma GCC unroll 1
      for (int i = 0; i < count; ++i)
        squares[1].set(i, (Rises ? terms.maximum[i] : level) + gp_log_normal(terms.b[i]));
    }
  }

  template <bool Emit, bool Summary, class State>
  void square(State& s, Square<C>* squares, int64_t, int count, bool first) const {
    using V = Lanes<C>;
    const V level = s.memory.level;
    MaskOf<V> rises(IntOf<C>(0));
    for (int i = 0; i < count; ++i) rises = rises | ~(squares[0].get(i) <= level);
    Terms terms;
    if (mask_bits(rises) == 0 && find_terms<true, false>(terms, level, squares[0], count)) {
      sum_up<Emit, Summary, false>(s, terms, squares, count, first);
    } else {
      rising_square<Emit, Summary>(s, terms, squares, count, first);
    }
  }

 private:
  template <bool Emit, bool Summary, class State>
  __attribute__((noinline)) void rising_square(State& s, Terms& terms, Square<C>* squares,
                                               int count, bool first) const {
    const Lanes<C> level = s.memory.level;
    if (!find_terms<true, true>(terms, level, squares[0], count))
      find_terms<false, true>(terms, level, squares[0], count);
    s.memory.level = terms.maximum[count - 1];
    sum_up<Emit, Summary, true>(s, terms, squares, count, first);
  }
};

template <class C>
int64_t log_scan_workspace(int64_t rows, int64_t n) {
  return recurrence_workspace<C>(Cut::of(rows, n));
}

template <class C>
void log_scan(const RowTensors& tensors, char* workspace, const RowValues& before = {},
              const RowValues& initial = {}) {
  const Cut cut = Cut::of(tensors.rows, tensors.n);
  if (cut.empty()) return;
  const RecurrenceCarries<C> carries(workspace, cut);
  if (!cut.whole()) find_extremes<Maximum>(tensors.only(1), cut, carries.memory, false, before);
  run_recurrence(LogScanPolicy<C>{{}, before, initial.present()}, tensors, cut, &carries, initial);
}

}  // namespace gradplan::scan
