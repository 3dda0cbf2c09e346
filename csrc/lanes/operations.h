// The operations of a plain scan: cumsum, cumprod, cummax, cummin.
//
// apply_hastily is apply without its care for NaN. It gives the same bits as long as no NaN comes
// up anywhere; one that does comes out as NaN, except where kLosesNan. Where carries are combined
// with results, none can come up if the carry is harmless and the result is not NaN.
#pragma once

#include <limits>

#include "lanes/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradplan::lanes {

struct Sum {
  template <class V>
  static V identity() {
    return V(ElementOf<V>(-0.0));  // the exact one: -0.0 + x is x, signed zeros included
  }
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    return a + b;
  }
  template <class V>
  GP_INLINE static V apply_hastily(const V& a, const V& b) {
    return a + b;
  }
  static constexpr bool kCares = false;  // apply and apply_hastily differ
  static constexpr bool kLosesNan = false;
  template <class T>
  static bool harmless(T carry) {
    return carry - carry == T(0);  // finite
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
    if constexpr (std::is_class_v<V>) {
      V r;
      for (int p = 0; p < V::kParts; ++p) r.part[p] = apply(a.part[p], b.part[p]);
      return r;
    } else {
      const V p = a * b;
#if defined(__AVX512F__)  // masks of their own, of which the compiler makes vectors
      if constexpr (std::is_same_v<V, NativeVector<float>::type>) {
        const __mmask16 nan = _mm512_cmp_ps_mask((__m512)p, (__m512)p, _CMP_UNORD_Q);
        const __mmask16 made = _mm512_mask_cmp_ps_mask(nan, (__m512)a, (__m512)b, _CMP_ORD_Q);
        return (V)_mm512_mask_mov_ps((__m512)p, made, _mm512_setzero_ps());
      } else if constexpr (std::is_same_v<V, NativeVector<double>::type>) {
        const __mmask8 nan = _mm512_cmp_pd_mask((__m512d)p, (__m512d)p, _CMP_UNORD_Q);
        const __mmask8 made = _mm512_mask_cmp_pd_mask(nan, (__m512d)a, (__m512d)b, _CMP_ORD_Q);
        return (V)_mm512_mask_mov_pd((__m512d)p, made, _mm512_setzero_pd());
      }
#endif
      return select((p != p) & (a == a) & (b == b), V{}, p);
    }
  }
  template <class V>
  GP_INLINE static V apply_hastily(const V& a, const V& b) {
    return a * b;
  }
  static constexpr bool kCares = true;
  static constexpr bool kLosesNan = false;
  template <class T>
  static bool harmless(T carry) {
    return carry != T(0) && carry - carry == T(0);
  }
};

// NaN sticks once seen; of equal values the first one stays. (Of single numbers the larger one is
// found by an instruction, and NaN by a branch that is foreseen: a branch for the larger one is
// not.)
struct Maximum {
  template <class V>
  static V identity() {
    return V(-std::numeric_limits<ElementOf<V>>::infinity());
  }
  template <class V>
  GP_INLINE static V apply(const V& a, const V& b) {
    if constexpr (std::is_arithmetic_v<V>)
      return b != b && a == a ? b : opaque(apply_hastily(a, b));
    else
      return select((b <= a) | (a != a), a, b);
  }
  template <class V>
  GP_INLINE static V apply_hastily(const V& a, const V& b) {
    return b > a ? b : a;
  }
  static constexpr bool kCares = true;
  static constexpr bool kLosesNan = true;
  template <class T>
  static bool harmless(T carry) {
    return carry == carry;
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
    if constexpr (std::is_arithmetic_v<V>)
      return b != b && a == a ? b : opaque(apply_hastily(a, b));
    else
      return select((b >= a) | (a != a), a, b);
  }
  template <class V>
  GP_INLINE static V apply_hastily(const V& a, const V& b) {
    return b < a ? b : a;
  }
  static constexpr bool kCares = true;
  static constexpr bool kLosesNan = true;
  template <class T>
  static bool harmless(T carry) {
    return carry == carry;
  }
  template <class V>
  GP_INLINE static auto beats(const V& challenger, const V& holder) {
    return challenger < holder;
  }
};

template <class Op, bool Hasty, class V>
GP_INLINE V apply_either(const V& a, const V& b) {
  if constexpr (Hasty)
    return Op::apply_hastily(a, b);
  else
    return Op::apply(a, b);
}

}  // namespace gradplan::lanes
