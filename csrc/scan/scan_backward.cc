// Scans backward. Position 0 of every sweep is the end of the forward scan.
#include "lanes/scaled.h"
#include "lanes/visit.h"
#include "scan/log_scan.h"
#include "scan/record_scan.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

// The values of one input one position before each lane starts (any value where nothing is before).
template <class C>
Lanes<C> before_lanes(const LaneInputs<C>& inputs, int input, const LaneRange& range, int64_t lane,
                      int lanes) {
  alignas(64) C buffer[kLanes] = {};
  unsigned inside = 0;
  for (int l = 0; l < lanes; ++l)
    inside |= unsigned(range.first_piece + (lane + l) / range.rows > 0) << l;
  if (inside != 0) inputs.read(input, -1, inside, buffer);
  return Lanes<C>::load(buffer);
}

// dx = y_before t, t[q] = dy[q] + x[q-1] t[q-1]. Inputs: dy, x, y one position ahead.
template <class Compute>
struct CumprodBackward {
  using C = Compute;
  static constexpr int kInputs = 3, kSummaryInputs = 2, kAhead = 2;

  template <class V>
  struct Memory {
    V x;        // of the step before
    V y_ahead;  // behind the last step
  };
  template <class V>
  using Gain = Scaled<V>;

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>& inputs, const LaneRange& range,
             int64_t lane, int lanes, int64_t row_length, const C*) const {
    memory.x = before_lanes(inputs, 1, range, lane, lanes);
    alignas(64) C buffer[kLanes];
    std::fill_n(buffer, kLanes, C(1));
    unsigned inside = 0;
    for (int l = 0; l < lanes; ++l) {
      const int64_t piece = range.first_piece + (lane + l) / range.rows;
      inside |= unsigned(piece * range.piece + range.length < row_length) << l;
    }
    if (Emit && inside != 0) inputs.read(2, range.length, inside, buffer);
    memory.y_ahead = Lanes<C>::load(buffer);
  }

  template <class V>
  void finish_input(const Memory<V>& memory, Square<C>* squares, int count) const {
    squares[2].set(count - 1, memory.y_ahead);
  }

  template <class V>
  static Gain<V> start(const Memory<V>&) {
    return split(V(ElementOf<V>(1)));
  }
  template <class V>
  static void finish(Gain<V>&, const Memory<V>&) {}
  template <class V>
  static Gain<V> compose(const Gain<V>& later, const Gain<V>& earlier) {
    return later * earlier;
  }
  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    return select(gain.m == V(ElementOf<V>(0)), l, l + gain * v);
  }
  template <class V>
  static void pack(const Gain<V>& gain, V* fields) {
    fields[0] = gain.m;
    fields[1] = bitcast<ElementOf<V>>(gain.e);
  }
  template <class V>
  static Gain<V> unpack(const V* fields) {
    return {fields[0], bitcast<IntOf<ElementOf<V>>>(fields[1])};
  }

  template <bool Emit, bool Summary, class State>
  void square(State& s, Square<C>* squares, int64_t, int count, bool first) const {
    const bool ordinary = factors_are_ordinary(s.memory.x, squares[1], count);
    (ordinary ? &steps<true, Emit, Summary, State>
              : &steps<false, Emit, Summary, State>)(s, squares, count, first);
  }

 private:
  // Are all factors of these steps so far from zero and overflow that sixteen of them can be
  // multiplied as they are? A product of mantissas is rounded like the product itself.
  static bool factors_are_ordinary(const Lanes<C>& before, const Square<C>& x, int count) {
    using V = Lanes<C>;
    constexpr C kMost = sizeof(C) == 4 ? C(0x1p7) : C(0x1p60);
    MaskOf<V> outside(IntOf<C>(0));
    for (int i = 0; i < count; ++i) {
      const V a = i == 0 ? before : x.get(i - 1), size = absolute(a);
      // NaN fails both comparisons.
      outside = outside | ~((size >= V(1 / kMost)) & (size <= V(kMost)));
    }
    return mask_bits(outside) == 0;
  }

  GP_INLINE static Lanes<C> absolute(const Lanes<C>& v) {
    using I = Lanes<IntOf<C>>;
    return bitcast<C>(bitcast<IntOf<C>>(v) & I(std::numeric_limits<IntOf<C>>::max()));
  }

  template <bool Ordinary, bool Emit, bool Summary, class State>
  __attribute__((noinline)) static void steps(State& s, Square<C>* squares, int count, bool first) {
    using V = Lanes<C>;
    const V zero = V(C(0));
    V a = s.memory.x, t = s.t, l = s.l;
    // The product of the square's factors: mantissas of 16 factors cannot underflow, so it is
    // enough to renormalise at the end. Zeros are set aside: they win, also over infinities.
    V product = s.gain.m;
    auto exponent = s.gain.e;
    auto any_zero = product == zero;
    for (int i = 0; i < count; ++i) {
      const V dy = squares[0].get(i), x = squares[1].get(i);
      // A carry that passes a zero is missing behind it, even if it has overflowed.
      const auto blocked = Ordinary ? MaskOf<V>(IntOf<C>(0)) : a == zero;
      const auto pass = [&](const V& carry) {
        const V sum = dy + a * carry;
        return Ordinary ? sum : select(blocked, dy, sum);
      };
      if constexpr (Emit) {
        const V y = squares[2].get(i);
        const V next = pass(t);
        t = first && i == 0 ? select(s.has_t, next, dy) : next;
        squares[3].set(i, select(y == zero, zero, y * t));
      }
      if constexpr (Summary) {
        l = first && i == 0 ? dy : pass(l);
        if constexpr (Ordinary) {
          product = product * a;
        } else {
          const Scaled<V> factor = split(a);
          any_zero = any_zero | blocked;
          product = product * factor.m;
          exponent = exponent + factor.e;
        }
      }
      a = x;
    }
    s.memory.x = a;
    if constexpr (Emit) s.t = t;
    if constexpr (Summary) {
      s.l = l;
      s.gain = split(select(any_zero, zero, product));
      s.gain.e = s.gain.e + exponent;
    }
  }
};

// dx = t exp(x - y), t[q] = dy[q] + exp(y[q] - y[q-1]) t[q-1]. Inputs: dy, y, x.
template <class Compute>
struct LogBackward : LevelGains {
  using C = Compute;
  static constexpr int kInputs = 3, kSummaryInputs = 2;

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>& inputs, const LaneRange& range,
             int64_t lane, int lanes, int64_t, const C*) const {
    memory.level = before_lanes(inputs, 1, range, lane, lanes);
  }

  // exp(y - before), 0 where y is -inf: everything in front of it is masked.
  template <class V>
  GP_INLINE static V factor(const V& y, const V& before) {
    using T = ElementOf<V>;
    const V lowest = V(-std::numeric_limits<T>::infinity());
    return select(y == lowest, V(T(0)), exp_difference(y, before));
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

}  // namespace

BoundKernel bind_scan_backward(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const bool last = problem.text("ties") == "last";
  const Shape shape = problem.shape[0];
  const auto [rows, n] = rows_and_length(shape, axis);
  const int dy = problem.at("dy"), x = problem.at("x"), y = problem.at("y"), dx = problem.at("dx");
  if (kind == "cumsum")
    return bind_prefix_scan(kind, problem.element(), shape, axis, !reverse, dy, dx);
  return visit_compute(problem.element(), [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    const Cut cut = Cut::of(rows, n);
    const auto recurrence = [&](auto policy, int second, int third) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RecurrenceCarries<C> carries(workspace, cut);
                const RowTensors tensors({&t[dy], &t[second], &t[third], &t[dx]}, axis, !reverse);
                run_recurrence(policy, tensors, cut, &carries);
              },
              recurrence_workspace<C>(cut)};
    };
    const auto records = [&](auto op) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RowTensors tensors({&t[x], &t[dy], &t[dx]}, axis, !reverse);
                record_scan<C, decltype(op)>(tensors, last, workspace);
              },
              record_scan_workspace<C>(rows, n)};
    };
    if (kind == "cumprod") return recurrence(CumprodBackward<C>{}, x, y);
    if (kind == "logcumsumexp") return recurrence(LogBackward<C>{}, y, x);
    if (kind == "cummax") return records(Maximum{});
    if (kind == "cummin") return records(Minimum{});
    throw PlanError("Unsupported", problem.plan + ": no gradient of kind '" + kind + "'");
  });
}

}  // namespace gradplan::scan
