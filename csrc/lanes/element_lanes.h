// Sixteen neighbouring elements as lanes in the order that is fastest.
//
// Elements of bf16 are split into the even and the odd ones: each is a shift or a mask away from
// its value in f32, and rounding them back needs no packing. All others keep their order.
#pragma once

#include <array>

#include "lanes/elements.h"
#include "lanes/transpose.h"

namespace gradplan::lanes {

template <class E>
constexpr bool kIsWord = sizeof(E) == 2;

namespace detail {
template <int... I>
GP_INLINE Words joined(Half a, Half b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}
GP_INLINE Words joined(Half a, Half b) {
  return joined(a, b, std::make_integer_sequence<int, kWordWidth>{});
}
}  // namespace detail

// Element i is lane lane_of(i).
template <class E>
struct ElementLanes {
  using V = Lanes<ComputeOf<E>>;
  static constexpr int W = V::kWidth;
  static constexpr bool kPaired = std::is_same_v<E, BF16> && 2 * W <= kLanes;
  typedef uint32_t Pairs __attribute__((vector_size(kVectorBytes)));
  typedef uint32_t PairsInMemory __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));

  static constexpr int lane_of(int i) {
    return kPaired ? i / (2 * W) * (2 * W) + i % 2 * W + i % (2 * W) / 2 : i;
  }
  static constexpr auto kLaneOf = [] {
    std::array<int, kLanes> table{};
    for (int i = 0; i < kLanes; ++i) table[i] = lane_of(i);
    return table;
  }();

  GP_INLINE static V load(const E* from) {
    if constexpr (kPaired) {
      V r;
      for (int p = 0; p < V::kParts; p += 2) {
        const Pairs pairs = *reinterpret_cast<const PairsInMemory*>(from + p * W);
        r.part[p] = (Native<float>)(pairs << 16);
        r.part[p + 1] = (Native<float>)(pairs & 0xffff0000u);
      }
      return r;
    } else {
      return load_lanes(from);
    }
  }

  template <bool kNan>
  GP_INLINE static void store(E* to, const V& v) {
    if constexpr (kPaired) {
      for (int p = 0; p < V::kParts; p += 2) {
        const Pairs even = detail::round_bfloat<kNan>(v.part[p]);
        const Pairs odd = detail::round_bfloat<kNan>(v.part[p + 1]);
        *reinterpret_cast<PairsInMemory*>(to + p * W) = (even >> 16) | (odd & 0xffff0000u);
      }
    } else if constexpr (kIsWord<E> && V::kParts > 1) {
      // By the vector, not by halves: the transposition that reads it next would wait for both.
      for (int p = 0; p < V::kParts; p += 2) {
        const E* kind = nullptr;
        const detail::Half low = pack_part<kNan>(kind, v.part[p]);
        const detail::Half high = pack_part<kNan>(kind, v.part[p + 1]);
        *reinterpret_cast<detail::WordsUnaligned*>(to + p * W) = detail::joined(low, high);
      }
    } else {
      for (int p = 0; p < V::kParts; ++p) store_part<kNan>(to + p * W, v.part[p]);
    }
  }
};

}  // namespace gradplan::lanes
