// The operations of a plain scan: cumsum, cumprod, cummax, cummin.
#pragma once

#include <limits>

#include "lanes.h"

namespace gradplan {

struct Sum {
  template <class V>
  static V identity() {
    return V(ElementOf<V>(-0.0));  // the exact one: -0.0 + x is x, signed zeros included
  }
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    return a + b;
  }
};

struct Product {
  template <class V>
  static V identity() {
    return V(ElementOf<V>(1));
  }
  // Zero times infinity is zero: a group that overflows behind a zero must not turn it into NaN.
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    const V p = a * b;
    return select((p != p) & (a == a) & (b == b), V(ElementOf<V>(0)), p);
  }
  // The same where the result is not NaN, and NaN if that is.
  template <class V>
  GP_INLINE static V apply_hastily(const V& a, const V& b) {
    return a * b;
  }
};

// NaN sticks once seen; of equal values the first one stays.
struct Maximum {
  template <class V>
  static V identity() {
    return V(-std::numeric_limits<ElementOf<V>>::infinity());
  }
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    return select((b <= a) | (a != a), a, b);
  }
  template <class V>
  GP_INLINE static auto beats(const V& challenger, const V& holder) {
    return challenger > holder;
  }
};

struct Minimum {
  template <class V>
  static V identity() {
    return V(std::numeric_limits<ElementOf<V>>::infinity());
  }
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    return select((b >= a) | (a != a), a, b);
  }
  template <class V>
  GP_INLINE static auto beats(const V& challenger, const V& holder) {
    return challenger < holder;
  }
};

}  // namespace gradplan
