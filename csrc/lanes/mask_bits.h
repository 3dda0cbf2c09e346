// Masks of 16 lanes as 16 bits, and back.
#pragma once

#include "lanes/elements.h"

namespace gradplan::lanes {

// One bit per lane.
template <class T>
GP_INLINE uint16_t mask_bits(const Lanes<T>& mask) {
  using M = Lanes<T>;
  unsigned bits = 0;
  for (int p = 0; p < M::kParts; ++p) {
    unsigned part;
#if defined(__AVX512F__)
    part = sizeof(T) == 4 ? unsigned(_mm512_movepi32_mask((__m512i)mask.part[p]))
                          : unsigned(_mm512_movepi64_mask((__m512i)mask.part[p]));
#elif defined(__AVX__)
    part = sizeof(T) == 4 ? unsigned(_mm256_movemask_ps((__m256)mask.part[p]))
                          : unsigned(_mm256_movemask_pd((__m256d)mask.part[p]));
#elif defined(__SSE2__)
    part = sizeof(T) == 4 ? unsigned(_mm_movemask_ps((__m128)mask.part[p]))
                          : unsigned(_mm_movemask_pd((__m128d)mask.part[p]));
#else
    part = 0;
    for (int i = 0; i < M::kWidth; ++i) part |= unsigned(mask.part[p][i] != 0) << i;
#endif
    bits |= part << (p * M::kWidth);
  }
  return uint16_t(bits);
}

// Is any bit of a native vector set?
template <class N>
GP_INLINE bool any_bit(const N& native) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)native, (__m512i)native) != 0;
#elif defined(__AVX__)
  return !_mm256_testz_si256((__m256i)native, (__m256i)native);
#elif defined(__SSE4_1__)
  return !_mm_testz_si128((__m128i)native, (__m128i)native);
#else
  uint64_t words[sizeof(N) / 8], all = 0;
  std::memcpy(words, &native, sizeof native);
  for (uint64_t word : words) all |= word;
  return all != 0;
#endif
}

// Is any number of a native vector NaN?
template <class N>
GP_INLINE bool any_nan(const N& native) {
  [[maybe_unused]] constexpr bool kSingle = sizeof(native[0]) == 4;
#if defined(__AVX512F__)
  if constexpr (kSingle)
    return _mm512_cmp_ps_mask((__m512)native, (__m512)native, _CMP_UNORD_Q) != 0;
  else
    return _mm512_cmp_pd_mask((__m512d)native, (__m512d)native, _CMP_UNORD_Q) != 0;
#elif defined(__AVX__)
  if constexpr (kSingle)
    return _mm256_movemask_ps((__m256)(native != native)) != 0;
  else
    return _mm256_movemask_pd((__m256d)(native != native)) != 0;
#else
  return any_bit(native != native);
#endif
}

template <class T>
GP_INLINE Lanes<T> mask_of_bits(uint16_t bits) {
  alignas(64) static constexpr T kBit[kLanes] = {
      1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
      1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const Lanes<T> bit = Lanes<T>::load(kBit);
  return (Lanes<T>(T(bits)) & bit) == bit;
}

}  // namespace gradplan::lanes
