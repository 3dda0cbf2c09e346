// The rules of segment_logsumexp, of the gradients of segment reductions, and of segment_softmax;
// see member_function.h. Names of tables: x, y and dy are what a member or a segment has, `out` is
// written.
#pragma once

#include "lanes/exp_log.h"
#include "lanes/operations.h"
#include "rows/member_function.h"

namespace gradplan::rows {

// `a - b`, and 0 for equal values, infinities included.
template <class V>
GP_INLINE V difference(const V& a, const V& b) {
  return select(a == b, V(ElementOf<V>(0)), a - b);
}
template <class C>
constexpr C kMinusInfinity = -std::numeric_limits<C>::infinity();

template <class Compute>
struct RuleBase {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr int kStages = 0;
  static constexpr bool kBySegment = false;
  static constexpr bool kOthers = false;
  static constexpr bool kBlockNumber = false;
  Table<C> out;

  GP_INLINE void begin(State<C>&, const At&) const {}
  void skip(const At& at, int64_t n) const { out.store(n, at.column, at.some, V(C(0))); }
};

// The maximum, and the sum of exponentials relative to it.
template <class Compute, bool kMasks>
struct Exponentials : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr int kStages = 2;
  Table<C> x;

  // What is masked out (-inf) has no share of anything, also where the maximum is -inf.
  GP_INLINE static V share(const V& x, const V& d) {
    const V e = gp_exp_low(d);
    if constexpr (!kMasks) return e;
    return select(x == V(kMinusInfinity<C>), V(C(0)), e);
  }
  template <int k>
  GP_INLINE V take(const State<C>& s, const At& at, int64_t n, int64_t) const {
    const V v = x.load(n, at.column, at.some);
    if constexpr (k == 0) return v;
    return share(v, difference(v, s.result[0]));
  }
  template <int k>
  GP_INLINE static V combine(const V& a, const V& b) {
    if constexpr (k == 0)
      return Maximum::apply(a, b);
    else
      return a + b;
  }
  GP_INLINE void prefetch(int64_t n, int64_t c) const { x.prefetch(n, c); }
};

template <class C>
struct LogSumExp : Exponentials<C, false> {
  using V = Lanes<C>;
  static constexpr bool kBySegment = true;
  C fill;

  GP_INLINE void segment(const State<C>& s, const At& at) const {
    this->out.store(at.segment, at.column, at.some, s.result[0] + gp_log(s.result[1]));
  }
  void empty(const At& at) const { this->out.store(at.segment, at.column, at.some, V(fill)); }
};

template <class C>
struct Softmax : Exponentials<C, true> {
  using V = Lanes<C>;

  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    const auto nothing = s.result[1] == V(C(0));
    for (int i = 0; i < count; ++i) {
      const V v = this->x.load(n[i], at.column, at.some);
      const V e = this->share(v, difference(v, s.result[0]));
      this->out.store(n[i], at.column, at.some, select(nothing, V(C(0)), e / s.result[1]));
    }
  }
};

template <class C>
struct LogSoftmax : Exponentials<C, true> {
  using V = Lanes<C>;

  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    const auto nothing = s.result[1] == V(C(0));
    const V log = gp_log(s.result[1]);
    for (int i = 0; i < count; ++i) {
      const V d = difference(this->x.load(n[i], at.column, at.some), s.result[0]);
      this->out.store(n[i], at.column, at.some, select(nothing, V(kMinusInfinity<C>), d - log));
    }
  }
};

// y (dy - sum of y dy)
template <class Compute>
struct SoftmaxBackward : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr int kStages = 1;
  Table<C> dy, y;

  template <int>
  GP_INLINE V take(const State<C>&, const At& at, int64_t n, int64_t) const {
    return y.load(n, at.column, at.some) * dy.load(n, at.column, at.some);
  }
  template <int>
  GP_INLINE static V combine(const V& a, const V& b) {
    return a + b;
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    for (int i = 0; i < count; ++i) {
      const V g = dy.load(n[i], at.column, at.some) - s.result[0];
      this->out.store(n[i], at.column, at.some, y.load(n[i], at.column, at.some) * g);
    }
  }
  GP_INLINE void prefetch(int64_t n, int64_t c) const {
    dy.prefetch(n, c);
    y.prefetch(n, c);
  }
};

// dy - exp(y) (sum of dy)
template <class Compute>
struct LogSoftmaxBackward : SoftmaxBackward<Compute> {
  using C = Compute;
  using V = Lanes<C>;

  template <int>
  GP_INLINE V take(const State<C>&, const At& at, int64_t n, int64_t) const {
    return this->dy.load(n, at.column, at.some);
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    for (int i = 0; i < count; ++i) {
      const V e = gp_exp(this->y.load(n[i], at.column, at.some));
      const V g = this->dy.load(n[i], at.column, at.some);
      this->out.store(n[i], at.column, at.some, g - e * s.result[0]);
    }
  }
};

// dy / count
template <class Compute>
struct MeanBackward : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  Table<C> dy;

  GP_INLINE void begin(State<C>& s, const At& at) const {
    s.own[0] = dy.load(at.segment, at.column, at.some) / V(C(at.members));
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    for (int i = 0; i < count; ++i) this->out.store(n[i], at.column, at.some, s.own[0]);
  }
  GP_INLINE void prefetch(int64_t, int64_t) const {}
};

// What reads the members' x, and y and dy of the segment.
template <class Compute>
struct OfExtreme : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  Table<C> dy, y, x;

  GP_INLINE void begin(State<C>& s, const At& at) const {
    s.own[0] = dy.load(at.segment, at.column, at.some);
    s.own[1] = y.load(at.segment, at.column, at.some);
  }
  GP_INLINE auto matches(const State<C>& s, const At& at, int64_t n) const {
    const V v = x.load(n, at.column, at.some);
    return (v == s.own[1]) | ((v != v) & (s.own[1] != s.own[1]));
  }
  GP_INLINE void prefetch(int64_t n, int64_t c) const { x.prefetch(n, c); }
};

// dy exp(x - y)
template <class C>
struct LogSumExpBackward : OfExtreme<C> {
  using V = Lanes<C>;

  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    for (int i = 0; i < count; ++i) {
      const V v = this->x.load(n[i], at.column, at.some);
      const V g = s.own[0] * gp_exp(difference(v, s.own[1]));
      this->out.store(n[i], at.column, at.some, select(v == V(kMinusInfinity<C>), V(C(0)), g));
    }
  }
};

// dy, divided by the number of extremes, to all of them.
template <class C>
struct SharedExtreme : OfExtreme<C> {
  using V = Lanes<C>;
  static constexpr int kStages = 1;

  template <int>
  GP_INLINE V take(const State<C>& s, const At& at, int64_t n, int64_t) const {
    return select(this->matches(s, at, n), V(C(1)), V(C(0)));
  }
  template <int>
  GP_INLINE static V combine(const V& a, const V& b) {
    return a + b;
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    const V share = s.own[0] / s.result[0];
    for (int i = 0; i < count; ++i)
      this->out.store(n[i], at.column, at.some, select(this->matches(s, at, n[i]), share, V(C(0))));
  }
};

// dy to the first of the extremes, or to the last: the block that has it, and there the first.
template <class C, bool kLast>
struct ChosenExtreme : OfExtreme<C> {
  using V = Lanes<C>;
  static constexpr int kStages = 1;
  static constexpr bool kBlockNumber = true;

  template <int>
  GP_INLINE V take(const State<C>& s, const At& at, int64_t n, int64_t block) const {
    const V nowhere = V(kLast ? C(-1) : std::numeric_limits<C>::infinity());
    return select(this->matches(s, at, n), V(C(block)), nowhere);
  }
  template <int>
  GP_INLINE static V combine(const V& a, const V& b) {
    return select(kLast ? b > a : b < a, b, a);
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t block) const {
    auto open = s.result[0] == V(C(block));
    for (int k = 0; k < count; ++k) {
      const int64_t row = n[kLast ? count - 1 - k : k];
      const auto here = this->matches(s, at, row) & open;
      open = open & ~here;
      this->out.store(row, at.column, at.some, select(here, s.own[0], V(C(0))));
    }
  }
};
template <class C>
using FirstExtreme = ChosenExtreme<C, false>;
template <class C>
using LastExtreme = ChosenExtreme<C, true>;

// dy times the product of the others.
template <class Compute>
struct ProductBackward : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr int kStages = 1;
  static constexpr bool kOthers = true;
  Table<C> dy, x;

  GP_INLINE static V identity() { return V(C(1)); }
  GP_INLINE void begin(State<C>& s, const At& at) const {
    s.own[0] = dy.load(at.segment, at.column, at.some);
  }
  template <int>
  GP_INLINE V take(const State<C>&, const At& at, int64_t n, int64_t) const {
    return x.load(n, at.column, at.some);
  }
  template <int>
  GP_INLINE static V combine(const V& a, const V& b) {
    return Product::apply(a, b);
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t) const {
    V behind[kRowBlock];
    behind[count - 1] = identity();
    for (int i = count - 2; i >= 0; --i)
      behind[i] = Product::apply(x.load(n[i + 1], at.column, at.some), behind[i + 1]);
    V before = identity();
    for (int i = 0; i < count; ++i) {
      const V others =
          Product::apply(Product::apply(s.early, before), Product::apply(behind[i], s.late));
      const V v = x.load(n[i], at.column, at.some);
      this->out.store(n[i], at.column, at.some, Product::apply(s.own[0], others));
      before = Product::apply(before, v);
    }
  }
  GP_INLINE void prefetch(int64_t n, int64_t c) const { x.prefetch(n, c); }
};

}  // namespace gradplan::rows
