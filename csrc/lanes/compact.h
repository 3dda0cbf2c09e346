// Compaction: the lanes that a mask picks, one after the other in a list.
#pragma once

#include <array>

#include "lanes/mask_bits.h"

namespace gradplan::lanes {

template <class I>
GP_INLINE bool any(const Lanes<I>& mask) {
  auto all = mask.part[0];
  for (int p = 1; p < Lanes<I>::kParts; ++p) all |= mask.part[p];
  return any_bit(all);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
namespace detail {
// For every set of picked lanes of a 256-bit vector, the order of its 32-bit words that brings the
// picked ones to the front.
template <int W>
constexpr auto compaction_orders() {
  constexpr int kWords = 8 / W;  // 32-bit words of a lane
  std::array<std::array<uint8_t, 8>, 1 << W> orders{};
  for (int bits = 0; bits < 1 << W; ++bits) {
    int at = 0;
    for (int lane = 0; lane < W; ++lane)
      if (bits >> lane & 1)
        for (int w = 0; w < kWords; ++w) orders[bits][at++] = uint8_t(lane * kWords + w);
  }
  return orders;
}
template <int W>
inline constexpr auto kCompactionOrders = compaction_orders<W>();
}  // namespace detail
#endif

// Writes the lanes of `values` that `mask` picks, in order, to `to`, and returns where the next
// ones go. May write up to 16 elements from there with anything.
template <class I>
GP_INLINE I* compact(I* to, const Lanes<I>& values, const Lanes<I>& mask) {
#if defined(__AVX2__)
  constexpr int kWidth = Lanes<I>::kWidth;
  const unsigned all = mask_bits(mask);
  for (int p = 0; p < Lanes<I>::kParts; ++p) {
    const unsigned bits = all >> (p * kWidth) & ((1u << kWidth) - 1);
#if defined(__AVX512F__)
    const __m512i v = (__m512i)values.part[p];
    if constexpr (sizeof(I) == 4)
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(__mmask16(bits), v));
    else
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(__mmask8(bits), v));
#else
    const uint8_t* order = detail::kCompactionOrders<kWidth>[bits].data();
    const __m256i words =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(order)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32((__m256i)values.part[p], words));
#endif
    to += __builtin_popcount(bits);
  }
#else
  for (int l = 0; l < kLanes; ++l) {
    *to = values[l];
    to += mask[l] & 1;
  }
#endif
  return to;
}

}  // namespace gradplan::lanes
