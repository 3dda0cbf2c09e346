// How elementwise kernels write a run of elements.
#pragma once

#include <algorithm>

#include "lanes/visit.h"
#include "memory/runs.h"
#include "memory/streams.h"

namespace gradplan::pointwise {
using namespace ffi;
using namespace lanes;
using namespace memory;

// Where sixteen neighbours go. NaN is made canonical, unless the caller knows that there is none.
template <class E, bool kStream>
struct Place {
  E* at;

  template <bool kNan = true>
  GP_INLINE void put(const Lanes<ComputeOf<E>>& v) const {
    if constexpr (kStream)
      stream_lanes<kNan>(at, v);
    else
      store_lanes<kNan>(at, v);
  }
};

// Writes n elements of y, the last operand of `stride`: `any(i, count)` makes up to sixteen of them
// from operands with any strides, `whole(i, place)` makes sixteen from contiguous ones and puts
// them there.
template <int K, class E, class Any, class Whole>
GP_INLINE void write_run(E* y, const Offsets& stride, int64_t n, bool stream, Any&& any,
                         Whole&& whole) {
  auto some = [&](int64_t i, int count) GP_INLINE_LAMBDA {
    store_any(y + i * stride[K - 1], stride[K - 1], count, any(i, count));
  };
  if (std::any_of(&stride[0], &stride[K], [](int64_t step) { return step != 1; })) {
    for (int64_t i = 0; i < n; i += kLanes) some(i, int(std::min<int64_t>(kLanes, n - i)));
  } else if (stream) {
    touch_pages(y, n);
    in_lanes(n, elements_to_line(y), some,
             [&](int64_t i) GP_INLINE_LAMBDA { whole(i, Place<E, true>{y + i}); });
  } else {
    in_lanes(n, 0, some, [&](int64_t i) GP_INLINE_LAMBDA { whole(i, Place<E, false>{y + i}); });
  }
}

}  // namespace gradplan::pointwise
