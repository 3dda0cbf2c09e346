// Products with an exponent of unbounded range: value = m * 2^e, m in [0.5, 1) or 0, inf, NaN.
//
// A product over a block of a recurrence may overflow or vanish although the gradient that it
// carries is an ordinary number; mantissa and exponent apart, it cannot.
#pragma once

#include "lanes/operations.h"

namespace gradplan::lanes {

template <class V>
struct Scaled {
  using T = ElementOf<V>;
  using I = Rebind<V, IntOf<T>>;
  V m;
  I e;
};

namespace detail {
template <class T>
struct FloatFormat;
template <>
struct FloatFormat<float> {
  static constexpr int kMantissaBits = 23, kBias = 127, kMaxExponent = 255, kClamp = 250;
  static constexpr float kLift = 0x1p+32f;  // makes a subnormal normal
  static constexpr int kLiftBits = 32;
};
template <>
struct FloatFormat<double> {
  static constexpr int kMantissaBits = 52, kBias = 1023, kMaxExponent = 2047, kClamp = 2000;
  static constexpr double kLift = 0x1p+64;
  static constexpr int kLiftBits = 64;
};
}  // namespace detail

template <class V>
GP_INLINE Scaled<V> split(V v) {
  using T = ElementOf<V>;
  using B = IntOf<T>;
  using I = Rebind<V, B>;
  using F = detail::FloatFormat<T>;
  const I exponent_mask = I(B(F::kMaxExponent));
  const I raw = (bitcast<B>(v) >> F::kMantissaBits) & exponent_mask;
  const auto subnormal = raw == I(B(0));
  const V lifted = select(subnormal, v * V(F::kLift), v);
  const I bits = bitcast<B>(lifted);
  const I field = (bits >> F::kMantissaBits) & exponent_mask;
  // Zero (the field is still 0), infinities and NaN are their own mantissa.
  const auto special = (field == I(B(0))) | (field == exponent_mask);
  const I half = I(B(F::kBias - 1) << F::kMantissaBits);
  const I fraction = bits & I(~(B(F::kMaxExponent) << F::kMantissaBits));
  Scaled<V> r;
  r.m = select(special, v, bitcast<T>(fraction | half));
  const I shift = select(subnormal, I(B(F::kLiftBits)), I(B(0)));
  r.e = select(special, I(B(0)), field - I(B(F::kBias - 1)) - shift);
  return r;
}

// Zero if a factor is, whatever the other one.
template <class V>
GP_INLINE Scaled<V> operator*(const Scaled<V>& a, const Scaled<V>& b) {
  const V zero = V(ElementOf<V>(0));
  Scaled<V> r = split(select((a.m == zero) | (b.m == zero), zero, a.m * b.m));
  r.e = r.e + a.e + b.e;
  return r;
}

// 2^e for |e| at most half the clamp.
template <class V>
GP_INLINE V two_to(const Rebind<V, IntOf<ElementOf<V>>>& e) {
  using T = ElementOf<V>;
  using B = IntOf<T>;
  using I = Rebind<V, B>;
  using F = detail::FloatFormat<T>;
  return bitcast<T>((e + I(B(F::kBias))) << F::kMantissaBits);
}

// a * v, rounded as the product of the mantissas, and once more if the result is subnormal. Zero
// times infinity is zero.
template <class V>
GP_INLINE V operator*(const Scaled<V>& a, const V& v) {
  using T = ElementOf<V>;
  using B = IntOf<T>;
  using I = Rebind<V, B>;
  using F = detail::FloatFormat<T>;
  const Scaled<V> b = split(v);
  I e = a.e + b.e;
  e = select(e > I(B(F::kClamp)), I(B(F::kClamp)), e);
  e = select(e < I(B(-F::kClamp)), I(B(-F::kClamp)), e);
  const I half = e >> 1;
  return Product::apply(a.m, b.m) * two_to<V>(half) * two_to<V>(e - half);
}

}  // namespace gradplan::lanes
