// Scans backward. Position 0 of every sweep is the end of the forward scan.
#include "lanes/mask_bits.h"
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
  // Of opposite infinities the one that came along the recurrence stays: it was there first.
  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    const V passed = gain * v, sum = l + passed;
    const V total = select((sum != sum) & (l == l) & (passed == passed), passed, sum);
    return select(gain.m == V(ElementOf<V>(0)), l, total);
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
    const bool ordinary = factors_are_ordinary(s.memory.x, squares[1]);
    const bool done =
        (ordinary ? &steps<Way::kOrdinary, Emit, Summary, State>
                  : &steps<Way::kHasty, Emit, Summary, State>)(s, squares, count, first);
    if (!done) steps<Way::kCareful, Emit, Summary>(s, squares, count, first);
  }

 private:
  // Zero times infinity is zero, which only careful steps ask for. The others stop at a NaN.
  enum class Way { kOrdinary, kHasty, kCareful };

  // Are all factors of these steps so far from zero and overflow that sixteen of them can be
  // multiplied as they are? A product of mantissas is rounded like the product itself. (A NaN
  // is not looked for: it makes t and l NaN, or, where nothing comes in, the gain.)
  static bool factors_are_ordinary(const Lanes<C>& before, const Square<C>& x) {
    using V = Lanes<C>;
    constexpr C kMost = sizeof(C) == 4 ? C(0x1p7) : C(0x1p60);
    // Two of each, for shorter chains. Behind the end of a row there are ones.
    V least = V(C(1)), most = least, also_least = lesser(absolute(before), least),
      also_most = greater(absolute(before), most);
    for (int i = 0; i < kLanes; i += 2) {
      const V a = absolute(x.get(i)), b = absolute(x.get(i + 1));
      least = lesser(a, least);
      most = greater(a, most);
      also_least = lesser(b, also_least);
      also_most = greater(b, also_most);
    }
    return mask_bits((lesser(least, also_least) < V(1 / kMost)) |
                     (greater(most, also_most) > V(kMost))) == 0;
  }

  // `b` if `a` is NaN.
  GP_INLINE static Lanes<C> lesser(const Lanes<C>& a, const Lanes<C>& b) {
    Lanes<C> r;
    for (int p = 0; p < r.kParts; ++p) r.part[p] = a.part[p] < b.part[p] ? a.part[p] : b.part[p];
    return r;
  }
  GP_INLINE static Lanes<C> greater(const Lanes<C>& a, const Lanes<C>& b) {
    Lanes<C> r;
    for (int p = 0; p < r.kParts; ++p) r.part[p] = a.part[p] > b.part[p] ? a.part[p] : b.part[p];
    return r;
  }

  GP_INLINE static typename Lanes<C>::Native sum_of_parts(const Lanes<C>& v) {
    auto sum = v.part[0];
    for (int p = 1; p < Lanes<C>::kParts; ++p) sum = sum + v.part[p];
    return sum;
  }

  GP_INLINE static Lanes<C> absolute(const Lanes<C>& v) {
    using I = Lanes<IntOf<C>>;
    Lanes<C> r = bitcast<C>(bitcast<IntOf<C>>(v) & I(std::numeric_limits<IntOf<C>>::max()));
    // Opaque, or the compiler makes masked operations of what is a minimum or a maximum.
    for (int p = 0; p < r.kParts; ++p) r.part[p] = opaque(r.part[p]);
    return r;
  }

  // False if a NaN came up and these are not careful steps: then nothing has changed but the output
  // square. (A NaN that is neither stored nor carried on is one that careful steps drop as well.)
  template <Way way, bool Emit, bool Summary, class State>
  __attribute__((noinline)) static bool steps(State& s, Square<C>* squares, int count, bool first) {
    using V = Lanes<C>;
    constexpr bool Ordinary = way == Way::kOrdinary, Careful = way == Way::kCareful;
    const auto multiply = [](const V& p, const V& q)
                              GP_INLINE_LAMBDA { return apply_either<Product, !Careful>(p, q); };
    const V zero = V(C(0));
    V a = s.memory.x, t = s.t, l = s.l;
    // The product of the square's factors: mantissas of 16 factors cannot underflow, so it is
    // enough to renormalise at the end. Zeros are set aside: they win, also over infinities.
    V product = s.gain.m;
    auto exponent = s.gain.e;
    auto any_zero = product == zero;
    typename V::Native all{};  // the sum of all that comes out: NaN if any of it is
    for (int i = 0; i < count; ++i) {
      const V dy = squares[0].get(i), x = squares[1].get(i);
      // A carry that passes a zero is missing behind it, even if it has overflowed.
      const auto blocked = Ordinary ? MaskOf<V>(IntOf<C>(0)) : a == zero;
      const auto pass = [&](const V& carry) {
        const V sum = dy + multiply(a, carry);
        return Ordinary ? sum : select(blocked, dy, sum);
      };
      if constexpr (Emit) {
        const V y = squares[2].get(i);
        const V next = pass(t);
        t = first && i == 0 ? select(s.has_t, next, dy) : next;
        const V dx = select(y == zero, zero, multiply(y, t));
        squares[3].set(i, dx);
        if constexpr (!Careful) all = all + sum_of_parts(dx);
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
    if constexpr (!Careful) {
      if constexpr (Emit) all = all + sum_of_parts(t);
      if constexpr (Summary) all = all + sum_of_parts(l);
      if (any_nan(all)) return false;
    }
    s.memory.x = a;
    if constexpr (Emit) s.t = t;
    if constexpr (Summary) {
      s.l = l;
      s.gain = split(select(any_zero, zero, product));
      s.gain.e = s.gain.e + exponent;
    }
    return true;
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
