// t[q] = b[q] + a[q] t[q-1] with factors of any size: zeros among them, and products that overflow
// or vanish on the way. Inputs: b, a, and for gradients a weight of t, one position ahead.
#pragma once

#include "lanes/mask_bits.h"
#include "lanes/operations.h"
#include "lanes/scaled.h"
#include "scan/recurrence.h"

namespace gradplan::scan {

// What the recurrence is used for:
//   kShifted    the factor of a step is what `a` held at the step before: the gradient's way
//   kWeighted   an output is t times a weight, 0 where that is zero
//   kPlain      an output is t, behind the weighted one
struct LinearForward {
  static constexpr bool kShifted = false, kWeighted = false, kPlain = true;
};
struct LinearGradient {
  static constexpr bool kShifted = true, kWeighted = true, kPlain = true;
};
struct CumprodGradient {
  static constexpr bool kShifted = true, kWeighted = true, kPlain = false;
};

template <class Compute, class Use>
struct LinearRecurrence {
  using C = Compute;
  static constexpr bool kWeighted = Use::kWeighted, kPlain = Use::kPlain;
  static constexpr int kInputs = 2 + kWeighted, kSummaryInputs = 2, kOutputs = kWeighted + kPlain,
                       kAhead = kWeighted ? 2 : -1;

  RowValues edge = {};    // the weight behind the last step, if it is not the same for all rows
  C common_edge = C(0);   // otherwise
  RowValues left = {};    // receives what t would pass on there, if it is present
  RowValues before = {};  // the factor that a row starts with, where factors are shifted

  template <class V>
  struct Memory {
    V a;      // of the step before
    V ahead;  // the weight behind the last step
  };
  template <class V>
  using Gain = Scaled<V>;

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>& inputs, const LaneRange& range,
             int64_t lane, int lanes, int64_t row_length, const C*) const {
    memory.a = memory.ahead = Lanes<C>(C(0));
    if constexpr (Use::kShifted) memory.a = before_lanes(inputs, 1, range, lane, lanes, before);
    if constexpr (Emit && kWeighted) {
      alignas(64) C buffer[kLanes];
      std::fill_n(buffer, kLanes, common_edge);
      unsigned inside = 0;
      for (int l = 0; l < lanes; ++l) {
        if (!ends_row(range, lane + l, row_length))
          inside |= 1u << l;
        else if (edge.present())
          buffer[l] = edge.load<C>((lane + l) % range.rows);
      }
      if (inside != 0) inputs.read(2, range.length, inside, buffer);
      memory.ahead = Lanes<C>::load(buffer);
    }
  }

  template <class V>
  void finish_input(const Memory<V>& memory, Square<C>* squares, int count) const {
    if constexpr (kWeighted) squares[2].set(count - 1, memory.ahead);
  }

  // Behind a row its carry passes one factor more.
  template <class State>
  void end_rows(const State& s, const LaneRange& range, int64_t lane, int lanes,
                int64_t row_length) const {
    if (!left.present()) return;
    alignas(64) C passed[kLanes];
    const auto zero = Lanes<C>(C(0));
    select(s.memory.a == zero, zero, Product::apply(s.memory.a, s.t)).store(passed);
    for (int l = 0; l < lanes; ++l)
      if (ends_row(range, lane + l, row_length)) left.store((lane + l) % range.rows, passed[l]);
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
    const bool ordinary = factors_are_ordinary(s.memory.a, squares[1]);
    const bool done =
        (ordinary ? &steps<Way::kOrdinary, Emit, Summary, State>
                  : &steps<Way::kHasty, Emit, Summary, State>)(s, squares, count, first);
    if (!done) steps<Way::kCareful, Emit, Summary>(s, squares, count, first);
  }

 private:
  static bool ends_row(const LaneRange& range, int64_t lane, int64_t row_length) {
    const int64_t piece = range.first_piece + lane / range.rows;
    return piece * range.piece + range.length >= row_length;
  }

  // Zero times infinity is zero, which only careful steps ask for. The others stop at a NaN.
  enum class Way { kOrdinary, kHasty, kCareful };

  // Are all factors of these steps so far from zero and overflow that sixteen of them can be
  // multiplied as they are? A product of mantissas is rounded like the product itself. (A NaN
  // is not looked for: it makes t and l NaN, or, where nothing comes in, the gain.)
  static bool factors_are_ordinary(const Lanes<C>& before, const Square<C>& factors) {
    using V = Lanes<C>;
    constexpr C kMost = sizeof(C) == 4 ? C(0x1p7) : C(0x1p60);
    // Two of each, for shorter chains. Behind the end of a row there are ones.
    const V first = Use::kShifted ? absolute(before) : V(C(1));
    V least = V(C(1)), most = least, also_least = lesser(first, least),
      also_most = greater(first, most);
    for (int i = 0; i < kLanes; i += 2) {
      const V a = absolute(factors.get(i)), b = absolute(factors.get(i + 1));
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
    V a = s.memory.a, t = s.t, l = s.l;
    // The product of the square's factors: mantissas of 16 factors cannot underflow, so it is
    // enough to renormalise at the end. Zeros are set aside: they win, also over infinities.
    V product = s.gain.m;
    auto exponent = s.gain.e;
    auto any_zero = product == zero;
    typename V::Native all{};  // the sum of all that comes out: NaN if any of it is
    for (int i = 0; i < count; ++i) {
      const V b = squares[0].get(i), own = squares[1].get(i);
      if constexpr (!Use::kShifted) a = own;
      // A carry that passes a zero is missing behind it, even if it has overflowed.
      const auto blocked = Ordinary ? MaskOf<V>(IntOf<C>(0)) : a == zero;
      const auto pass = [&](const V& carry) {
        const V sum = b + multiply(a, carry);
        return Ordinary ? sum : select(blocked, b, sum);
      };
      if constexpr (Emit) {
        const V next = pass(t);
        t = first && i == 0 ? select(s.has_t, next, b) : next;
        if constexpr (kWeighted) {
          const V weight = squares[2].get(i);
          const V weighted = select(weight == zero, zero, multiply(weight, t));
          squares[kInputs].set(i, weighted);
          if constexpr (!Careful) all = all + sum_of_parts(weighted);
        }
        if constexpr (kPlain) {
          squares[kInputs + kWeighted].set(i, t);
          if constexpr (way == Way::kHasty) all = all + sum_of_parts(t);
        }
      }
      if constexpr (Summary) {
        l = first && i == 0 ? b : pass(l);
        if constexpr (Ordinary) {
          product = product * a;
        } else {
          const Scaled<V> factor = split(a);
          any_zero = any_zero | blocked;
          product = product * factor.m;
          exponent = exponent + factor.e;
        }
      }
      if constexpr (Use::kShifted) a = own;
    }
    // Ordinary factors make no NaN out of t: a weight may.
    if constexpr (!Careful && (kWeighted || !Ordinary)) {
      if constexpr (Emit) all = all + sum_of_parts(t);
      if constexpr (Summary) all = all + sum_of_parts(l);
      if (any_nan(all)) return false;
    }
    s.memory.a = a;
    if constexpr (Emit) s.t = t;
    if constexpr (Summary) {
      s.l = l;
      s.gain = split(select(any_zero, zero, product));
      s.gain.e = s.gain.e + exponent;
    }
    return true;
  }
};

}  // namespace gradplan::scan
