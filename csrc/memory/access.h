// Sixteen elements at a time from any layout, and runs of output that bypass the caches.
#pragma once

#include <algorithm>
#include <utility>

#include "lanes/elements.h"

namespace gradplan::memory {
using namespace lanes;

template <class C>
GP_INLINE Mask<C> first_lanes(int count) {
  using I = IntOf<C>;
  static constexpr I kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Lanes<I>::load(kIndex) < Lanes<I>(I(count));
}

// One native vector of compute values from elements that are `stride` apart, put together in a
// register: a vector load of freshly written elements would wait for their stores.
template <class E, size_t... I>
GP_INLINE auto collect_part(const E* p, int64_t stride, std::index_sequence<I...>) {
  if constexpr (std::is_same_v<E, ComputeOf<E>>) {
    return Native<E>{p[int64_t(I) * stride]...};
  } else {
    const detail::Half words = {p[int64_t(I) * stride].bits...};
    return load_part(reinterpret_cast<const E*>(&words));
  }
}

// Sixteen elements in any other way than all of them side by side: these are calls, so that the
// loops around them stay small.
template <class E>
__attribute__((noinline)) Lanes<ComputeOf<E>> load_apart(const E* p, int64_t stride, int count,
                                                         ComputeOf<E> fill) {
  using V = Lanes<ComputeOf<E>>;
  if (count == kLanes) {
    V r;
    for (int i = 0; i < V::kParts; ++i)
      r.part[i] =
          collect_part(p + i * V::kWidth * stride, stride, std::make_index_sequence<V::kWidth>{});
    return r;
  }
  alignas(64) E buffer[kLanes];
  for (int i = 0; i < kLanes; ++i) buffer[i] = p[i < count ? i * stride : 0];
  return select(first_lanes<ComputeOf<E>>(count), load_lanes(buffer), V(fill));
}

template <class E>
__attribute__((noinline)) void store_apart(E* p, int64_t stride, int count,
                                           const Lanes<ComputeOf<E>>& v) {
  alignas(64) E buffer[kLanes];
  store_lanes(buffer, v);
  for (int i = 0; i < count; ++i) p[i * stride] = buffer[i];
}

// `count` elements that are `stride` apart; the other lanes get `fill`.
template <class E>
GP_INLINE Lanes<ComputeOf<E>> load_any(const E* p, int64_t stride, int count, ComputeOf<E> fill) {
  if (stride == 1 && count == kLanes) return load_lanes(p);
  return load_apart(p, stride, count, fill);
}

template <class E>
GP_INLINE void store_any(E* p, int64_t stride, int count, const Lanes<ComputeOf<E>>& v) {
  if (stride == 1 && count == kLanes)
    store_lanes(p, v);
  else
    store_apart(p, stride, count, v);
}

// Elements of p before the next cache line: where streaming stores can begin.
template <class E>
inline int64_t elements_to_line(const E* p) {
  return int64_t((-reinterpret_cast<uintptr_t>(p) % 64) / sizeof(E));
}

template <class E>
inline bool streamable(const E* p) {
  return reinterpret_cast<uintptr_t>(p) % kPartBytes<E> == 0;
}

// Walks [0, n) of contiguous elements: some(i, count) for the `head` elements before the first line
// and for what is left at the end (count <= 16), and whole(i) for every 16 in between.
template <class Some, class Whole>
GP_INLINE void in_lanes(int64_t n, int64_t head, Some&& some, Whole&& whole) {
  head = std::min(n, head);
  for (int64_t i = 0; i < head; i += kLanes) some(i, int(std::min<int64_t>(kLanes, head - i)));
  int64_t i = head;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) some(i, int(n - i));
}

}  // namespace gradplan::memory
