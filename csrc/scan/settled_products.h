// Products behind a carry that is zero or infinite: they are all zero, or all infinite, and only
// their signs are left to compute. Most rows of numbers that are not close to 1 end like that, and
// arithmetic on what they are made of (subnormal numbers, products that vanish) is slow.
#pragma once

#include <cmath>

#include "lanes/magnitude.h"
#include "scan/prefix_operation.h"

namespace gradplan::scan {

// Products of these bounds are far from overflow and underflow, whatever is rounded on the way.
template <class C>
constexpr C kFarAbove = sizeof(C) == 4 ? C(0x1p120) : C(0x1p1000);

// The product of the groups' extremes: no product of c1 and a local result is larger (smaller) than
// the product of each group's largest (smallest) magnitude, or 1 where all are smaller (larger).
template <bool Largest, class C>
__attribute__((noinline)) C product_of_extremes(const Square<C>& local) {
  Lanes<C> extreme = Lanes<C>(C(1));
  for (int place = 0; place < kLanes; ++place) {
    const Lanes<C> size = absolute(local.get(place));
    extreme = Largest ? greater(size, extreme) : lesser(size, extreme);
  }
  alignas(64) C of_lane[kLanes];
  extreme.store(of_lane);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) of_lane[l] *= of_lane[l + half];
  return of_lane[0];
}

// Is c3 * (c2 * (c1 * local)) zero everywhere, or infinite everywhere, with the sign of the
// factors? Zero times infinity is +0, whatever the signs, so it must not come up. The local results
// have no NaN, nor have the carries.
template <class C>
bool only_signs_are_left(const Square<C>& local, C c2, C c3) {
  const bool zero = c2 == C(0) || c3 == C(0), infinite = std::isinf(c2) || std::isinf(c3);
  if (zero == infinite) return false;
  if (zero) return product_of_extremes<true>(local) * std::max(C(1), std::abs(c2)) < kFarAbove<C>;
  return product_of_extremes<false>(local) * std::min(C(1), std::abs(c2)) > 1 / kFarAbove<C>;
}

// The signs of a block's results on a magnitude that is the same for all.
template <class C>
struct SignCarries {
  using Part = Native<C>;
  using Bits = NativeMask<C>;
  Bits sign, magnitude;

  GP_INLINE SignCarries(C c2, C c3) {
    const Part carries = (c2 * c3) - Part{};
    sign = (Bits)(C(-0.0) - Part{});
    magnitude = (Bits)carries & ~sign;
    carried = (Bits)carries;
  }
  GP_INLINE Part operator()(const Part& c1, const Part& local) const {
    return (Part)((((Bits)local ^ (Bits)c1 ^ carried) & sign) | magnitude);
  }

  Bits carried;
};

}  // namespace gradplan::scan
