// Squares of 16 steps x 16 lanes: what scans work on.
//
// A lane is one row (or one piece of a row) and a step is one position along the scan. Whatever the
// layout of a tensor, a square in scratch memory is [step][lane] in the compute type, so the scans
// themselves know nothing of strides, element types or direction.
#pragma once

#include "lanes/lanes.h"

namespace gradplan::scan {
using namespace ffi;
using namespace lanes;
using namespace memory;

template <class C>
struct alignas(64) Square {
  C at[kLanes][kLanes];  // [step][lane]

  GP_INLINE Lanes<C> get(int step) const { return Lanes<C>::load(at[step]); }
  GP_INLINE void set(int step, const Lanes<C>& v) { v.store(at[step]); }
};

}  // namespace gradplan::scan
