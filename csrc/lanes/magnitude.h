// Magnitudes of lanes: the largest and the smallest of many.
#pragma once

#include <limits>

#include "lanes/lanes.h"

namespace gradplan::lanes {

template <class C>
GP_INLINE Lanes<C> absolute(const Lanes<C>& v) {
  using I = Lanes<IntOf<C>>;
  Lanes<C> r = bitcast<C>(bitcast<IntOf<C>>(v) & I(std::numeric_limits<IntOf<C>>::max()));
  // Opaque, or the compiler makes masked operations of what is a minimum or a maximum.
  for (int p = 0; p < r.kParts; ++p) r.part[p] = opaque(r.part[p]);
  return r;
}

// `b` if `a` is NaN.
template <class C>
GP_INLINE Lanes<C> lesser(const Lanes<C>& a, const Lanes<C>& b) {
  Lanes<C> r;
  for (int p = 0; p < r.kParts; ++p) r.part[p] = a.part[p] < b.part[p] ? a.part[p] : b.part[p];
  return r;
}
template <class C>
GP_INLINE Lanes<C> greater(const Lanes<C>& a, const Lanes<C>& b) {
  Lanes<C> r;
  for (int p = 0; p < r.kParts; ++p) r.part[p] = a.part[p] > b.part[p] ? a.part[p] : b.part[p];
  return r;
}

}  // namespace gradplan::lanes
