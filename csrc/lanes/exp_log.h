// exp and log of the numerical contract: fixed sequences of +, -, x, /, integer operations and
// selects, so that one lane, 16 lanes, NumPy and a GPU give the same bits. docs/numerics.md ("The
// two functions") states the sequences and their measured errors;
// src/gradplan/reference/elementary.py executes them in NumPy, and tools/contract.py writes its
// constants here. Compile with -ffp-contract=off.
// Each function comes twice. gp_exp and gp_log are right for every input. gp_exp_low and
// gp_log_normal leave out what inner loops know cannot happen; where their precondition holds,
// their bits are those of gp_exp and gp_log.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lanes/lanes.h"

namespace gradplan::lanes {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

// Shifts must be logical (AVX2 has no other for 64 bits) and sums must wrap.
template <class T>
using UintOf = std::make_unsigned_t<IntOf<T>>;

template <class T>
struct Elementary;

// The polynomials are minimax fits in the stated variable; those of f32 were then moved by a few
// ulp to lower the error that the whole sequence has after rounding.
template <>
struct Elementary<float> {
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;

  static constexpr float kLog2e = 0x1.715476p+0f;
  // kLn2High has so few bits that its product with any exponent is exact.
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;

  // Below kExpZero the result rounds to 0, above kExpInf it overflows.
  static constexpr float kExpZero = -104.0f;
  static constexpr float kExpInf = 89.0f;
  // (exp(r) - 1 - r) / r^2 for |r| <= log(2)/2, lowest power first.
  static constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.55545ap-3f, 0x1.55592cp-5f, 0x1.125684p-7f,
                                   0x1.6999ep-10f};
  // (log((1+s)/(1-s)) - 2s) / s^3 in s^2, lowest power first.
  static constexpr float kLog[] = {0x1.555628p-1f, 0x1.98dd1cp-2f, 0x1.3cb7c4p-2f};
};

template <>
struct Elementary<double> {
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;

  static constexpr double kLog2e = 0x1.71547652b82fep+0;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;

  static constexpr double kExpZero = -746.0;
  static constexpr double kExpInf = 710.0;
  static constexpr double kExp[] = {
      0x1.000000000000ap-1,  0x1.55555555554fap-3,  0x1.555555555088dp-5,  0x1.1111111127b9dp-7,
      0x1.6c16c184264a9p-10, 0x1.a01a012a68a14p-13, 0x1.a0199a1737aaap-16, 0x1.71df253d52c06p-19,
      0x1.28ad685b22167p-22, 0x1.ad7f759264423p-26};
  static constexpr double kLog[] = {
      0x1.55555555555e7p-1, 0x1.999999996327p-2,  0x1.2492495b85cf3p-2, 0x1.c71c3d4266683p-3,
      0x1.746a7b4b73058p-3, 0x1.393599a720472p-3, 0x1.3337969c7dcc2p-3};
};

// Significands are reduced to [kLogLeast, 2 kLogLeast). A little below sqrt(1/2), because then
// |f - log(1+f)| stays under 1/16 at both ends, where its rounding would weigh double.
constexpr double kLogLeast = 0x1.62p-1;

template <class V>
inline constexpr ElementOf<V> kCanonicalNan = std::numeric_limits<ElementOf<V>>::quiet_NaN();

// 2^exponent, for normal results.
template <class T>
constexpr T power_of_two(int exponent) {
  using E = Elementary<T>;
  return std::bit_cast<T>(UintOf<T>(exponent + E::kBias) << E::kMantissaBits);
}

// The sum of c[i] x^i; x2 is x^2. Pairs of terms, then Horner's rule in x^2: as many operations as
// Horner's rule in half the latency, which is what bounds these functions (f64 log: 11 % faster).
// It is not worth the product x^2 for three terms.
template <class V, class T, int kTerms>
GP_INLINE V polynomial(V x, V x2, const T (&c)[kTerms]) {
  if constexpr (kTerms <= 3) {
    V y = V(c[kTerms - 1]);
    for (int i = kTerms - 2; i >= 0; --i) y = V(c[i]) + x * y;
    return y;
  } else {
    constexpr int kTop = (kTerms - 1) / 2 * 2;
    V y = V(c[kTop]);
    if constexpr (kTerms % 2 == 0) y = y + V(c[kTop + 1]) * x;
    for (int i = kTop - 2; i >= 0; i -= 2) y = (V(c[i]) + V(c[i + 1]) * x) + x2 * y;
    return y;
  }
}

template <class V>
struct ExpParts {
  V significand;  // exp(r), between 0.7 and 1.5
  // The exponent n + offset in the lowest bits (more than an exponent field holds), and above them
  // something that a shift to the exponent field pushes out.
  Rebind<V, UintOf<ElementOf<V>>> exponent;
};

// exp(x) = 2^n exp(r), n = round(x log2(e)), |r| <= log(2)/2.
template <int kOffset, class V>
GP_INLINE ExpParts<V> exp_parts(V x) {
  using T = ElementOf<V>;
  using E = Elementary<T>;
  // Adding 1.5 * 2^kMantissaBits rounds to an integer and leaves it in the low bits of the sum.
  // Ties go to an even sum, so the offset must be even for n to be the same with all offsets.
  static_assert(kOffset % 2 == 0);
  constexpr T kMagic = 3 * power_of_two<T>(E::kMantissaBits - 1) + T(kOffset);
  const V shifted = x * V(E::kLog2e) + V(kMagic);
  const V n = shifted - V(kMagic);
  const V high = x - n * V(E::kLn2High);  // exact
  const V low = n * V(E::kLn2Low);
  const V r = high - low;
  const V r2 = r * r;
  const V q = polynomial(r, r2, E::kExp);
  // high and low are added apart so that the rounding of r does not reach the result.
  return {V(T(1)) + (high + (r2 * q - low)), bitcast<UintOf<T>>(shifted)};
}

// exp(x) for x <= 64; of a NaN, some NaN.
template <class V>
GP_INLINE V gp_exp_low(V x) {
  using T = ElementOf<V>;
  using E = Elementary<T>;
  // Scaled up on the way, by so much that nothing before the last product is subnormal.
  constexpr int kUp = (E::kMantissaBits + 2) | 1;
  const auto [significand, exponent] = exp_parts<E::kBias + kUp>(x);
  const V scale = bitcast<T>(exponent << E::kMantissaBits);
  const V y = (significand * scale) * V(power_of_two<T>(-kUp));
  return select(x < V(E::kExpZero), V(T(0)), y);
}

template <class V>
GP_INLINE V gp_exp(V x) {
  using T = ElementOf<V>;
  using E = Elementary<T>;
  // 2^n as two factors, each of which is normal where 2^n may not be; the first product is exact.
  const auto [significand, exponent] = exp_parts<2 * E::kBias>(x);
  const auto half = exponent >> 1;
  const V scale1 = bitcast<T>(half << E::kMantissaBits);
  const V scale2 = bitcast<T>((exponent - half) << E::kMantissaBits);
  V y = (significand * scale1) * scale2;
  y = select(x < V(E::kExpZero), V(T(0)), y);
  y = select(x > V(E::kExpInf), V(std::numeric_limits<T>::infinity()), y);
  return select(x == x, y, V(kCanonicalNan<V>));
}

// log(x) of a positive normal number; `lift` is what the exponent of x is too large by (kLifted).
template <bool kLifted, class V>
GP_INLINE V log_of_normal(V x, V lift) {
  using T = ElementOf<V>;
  using E = Elementary<T>;
  using U = UintOf<T>;
  using UV = Rebind<V, U>;
  constexpr U kLeast = std::bit_cast<U>(T(kLogLeast));
  constexpr U kMantissa = (U(1) << E::kMantissaBits) - 1;

  // x = 2^e m with m in [kLogLeast, 2 kLogLeast)
  const UV bits = bitcast<U>(x);
  V e;
  UV k;
  if constexpr (sizeof(T) == 4) {
    k = bits - UV(kLeast);
    e = convert<T>(bitcast<IntOf<T>>(k) >> E::kMantissaBits);
  } else {
    // The same number where no instruction converts or shifts signed: placed into the low bits of
    // 2^52, biased.
    k = bits + UV(std::bit_cast<U>(T(1)) - kLeast);
    constexpr T kMagic = power_of_two<T>(E::kMantissaBits);
    e = bitcast<T>((k >> E::kMantissaBits) | UV(std::bit_cast<U>(kMagic))) - V(kMagic + E::kBias);
  }
  if constexpr (kLifted) e = e - lift;
  const V m = bitcast<T>((k & UV(kMantissa)) + UV(kLeast));

  // log(1+f) = f + s (R - f) with s = f / (2+f), R = s^2 Q(s^2)
  const V f = m - V(T(1));  // exact
  const V s = f / (m + V(T(1)));
  const V s2 = s * s;
  const V q = polynomial(s2, s2 * s2, E::kLog);
  const V rest = s * (s2 * q - f);

  // e log(2) + f + rest, where the first sum's rounding error is added back.
  const V high = e * V(E::kLn2High);  // exact
  const V sum = high + f;
  const V error = f - (sum - high);
  return sum + (rest + (error + e * V(E::kLn2Low)));
}

// log(x) for positive normal finite x; of anything else, unspecified.
template <class V>
GP_INLINE V gp_log_normal(V x) {
  return log_of_normal<false>(x, x);
}

template <class V>
GP_INLINE V gp_log(V x) {
  using T = ElementOf<V>;
  using E = Elementary<T>;
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const auto subnormal = x < V(std::numeric_limits<T>::min());
  const V lifted = select(subnormal, x * V(power_of_two<T>(E::kMantissaBits)), x);
  const V lift = select(subnormal, V(T(E::kMantissaBits)), V(T(0)));
  V y = log_of_normal<true>(lifted, lift);
  y = select(x == V(kInf), V(kInf), y);
  const V outside = select(x == V(T(0)), V(-kInf), V(kCanonicalNan<V>));
  return select(x > V(T(0)), y, outside);
}

}  // namespace gradplan::lanes
