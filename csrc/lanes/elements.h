// Element types: how they sit in memory, and how 16 (or one) of them load to the compute type and
// store back with a single rounding to nearest even.
#pragma once

#include <bit>
#include <limits>

#include "lanes/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradplan::lanes {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// f16 and bf16 compute in f32, f32 in f32, f64 in f64.
template <class E>
using ComputeOf = std::conditional_t<std::is_same_v<E, double>, double, float>;

template <class V>
GP_INLINE V canonical_nan(V v) {
  using T = ElementOf<V>;
  return select(v != v, V(std::numeric_limits<T>::quiet_NaN()), v);
}

// ---- one element -------------------------------------------------------------------------------

GP_INLINE float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  uint32_t o = uint32_t(h & 0x7fff) << 13;
  const uint32_t exponent = o & 0x0f800000;
  o += (127 - 15) << 23;
  if (exponent == 0x0f800000) {
    o += (128 - 16) << 23;
  } else if (exponent == 0) {  // zero or subnormal: renormalised by an exact subtraction
    o += 1 << 23;
    o = std::bit_cast<uint32_t>(std::bit_cast<float>(o) - std::bit_cast<float>(113u << 23));
  }
  return std::bit_cast<float>(o | sign);
}

GP_INLINE uint16_t float_to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = bits & 0x80000000u;
  uint32_t a = bits ^ sign;
  uint32_t o;
  if (a > 0x7f800000) return 0x7e00;
  if (a >= 0x47800000) {
    o = 0x7c00;
  } else if (a < 0x38800000) {  // subnormal result: the addition rounds
    const uint32_t magic = ((127 - 15) + (23 - 10) + 1) << 23;
    o = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(magic)) - magic;
  } else {
    const uint32_t odd = (a >> 13) & 1;
    o = (a + (uint32_t(15 - 127) << 23) + 0xfff + odd) >> 13;
  }
  return uint16_t(o | (sign >> 16));
}

GP_INLINE float load_element(const F16* p) { return half_to_float(p->bits); }
GP_INLINE float load_element(const BF16* p) {
  return std::bit_cast<float>(uint32_t(p->bits) << 16);
}
GP_INLINE float load_element(const float* p) { return *p; }
GP_INLINE double load_element(const double* p) { return *p; }

GP_INLINE void store_element(F16* p, float v) { p->bits = float_to_half(v); }
GP_INLINE void store_element(BF16* p, float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  p->bits = v != v ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
GP_INLINE void store_element(float* p, float v) { *p = canonical_nan(v); }
GP_INLINE void store_element(double* p, double v) { *p = canonical_nan(v); }

// ---- one native vector -------------------------------------------------------------------------

template <class C>
using Native = typename Lanes<C>::Native;

namespace detail {
constexpr int kF32Width = Lanes<float>::kWidth;
typedef uint16_t Half __attribute__((vector_size(kF32Width * 2)));
typedef uint16_t HalfUnaligned __attribute__((vector_size(kF32Width * 2), aligned(1), may_alias));
typedef uint32_t Word __attribute__((vector_size(kVectorBytes)));
typedef int32_t Int __attribute__((vector_size(kVectorBytes)));
typedef float Float __attribute__((vector_size(kVectorBytes)));

GP_INLINE Word splat(uint32_t v) { return v - Word{}; }

GP_INLINE Float widen_half(Half h) {
#if defined(__AVX512F__)
  return (Float)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__)
  return (Float)_mm256_cvtph_ps((__m128i)h);
#else
  const Word w = __builtin_convertvector(h, Word);
  const Word sign = (w & 0x8000) << 16;
  Word o = (w & 0x7fff) << 13;
  const Word exponent = o & 0x0f800000;
  o += splat((127 - 15) << 23);
  o += (Word)(exponent == 0x0f800000) & splat((128 - 16) << 23);
  const Int tiny = (Int)(exponent == 0);
  const Word shifted = (Word)((Float)(o + splat(1u << 23)) - (Float)splat(113u << 23));
  o = tiny ? shifted : o;
  return (Float)(o | sign);
#endif
}

// NaN comes out canonical, unless the caller says that there is none.
template <bool kNan>
GP_INLINE Half narrow_half(Float f) {
#if defined(__F16C__)
  if constexpr (kNan) f = f != f ? (Float)splat(0x7fc00000) : f;
#endif
#if defined(__AVX512F__)
  return (Half)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__)
  return (Half)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const Word bits = (Word)f;
  const Word sign = bits & 0x80000000u;
  const Word a = bits ^ sign;
  const Word magic = splat(((127 - 15) + (23 - 10) + 1) << 23);
  const Word small = (Word)((Float)a + (Float)magic) - magic;
  const Word normal = (a + splat((uint32_t(15 - 127) << 23) + 0xfff) + ((a >> 13) & 1)) >> 13;
  Word o = (Int)(a < 0x38800000) ? small : normal;
  o = (Int)(a >= 0x47800000) ? splat(0x7c00) : o;
  o |= sign >> 16;
  o = (Int)(a > 0x7f800000) ? splat(0x7e00) : o;
  return __builtin_convertvector(o, Half);
#endif
}

GP_INLINE Float widen_bfloat(Half h) {
  // GCC 12 makes five instructions of the conversion.
#if defined(__AVX512F__)
  return (Float)((Word)_mm512_cvtepu16_epi32((__m256i)h) << 16);
#elif defined(__AVX2__)
  return (Float)((Word)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#else
  return (Float)(__builtin_convertvector(h, Word) << 16);
#endif
}

// The upper half is the rounded value.
template <bool kNan>
GP_INLINE Word round_bfloat(Float f) {
  const Word bits = (Word)f;
  Word o = bits + splat(0x7fff) + ((bits >> 16) & 1);
  if constexpr (kNan) o = (Int)(f != f) ? splat(0x7fc00000) : o;
  return o;
}

template <bool kNan>
GP_INLINE Half narrow_bfloat(Float f) {
  const Word o = round_bfloat<kNan>(f) >> 16;
#if defined(__AVX2__) && !defined(__AVX512F__)
  return (Half)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)o),
                                _mm256_extracti128_si256((__m256i)o, 1));
#else
  return __builtin_convertvector(o, Half);
#endif
}
}  // namespace detail

GP_INLINE Native<float> load_part(const F16* p) {
  return detail::widen_half(*reinterpret_cast<const detail::HalfUnaligned*>(p));
}
GP_INLINE Native<float> load_part(const BF16* p) {
  return detail::widen_bfloat(*reinterpret_cast<const detail::HalfUnaligned*>(p));
}
GP_INLINE Native<float> load_part(const float* p) {
  return *reinterpret_cast<const NativeVector<float>::unaligned*>(p);
}
GP_INLINE Native<double> load_part(const double* p) {
  return *reinterpret_cast<const NativeVector<double>::unaligned*>(p);
}

// What a native vector of compute values is in memory: rounded, and with canonical NaN, unless the
// caller knows that there is none.
template <bool kNan = true>
GP_INLINE detail::Half pack_part(const F16*, Native<float> v) {
  return detail::narrow_half<kNan>(v);
}
template <bool kNan = true>
GP_INLINE detail::Half pack_part(const BF16*, Native<float> v) {
  return detail::narrow_bfloat<kNan>(v);
}
template <bool kNan = true, class C>
  requires std::is_floating_point_v<C>
GP_INLINE Native<C> pack_part(const C*, Native<C> v) {
  if constexpr (kNan) v = v != v ? std::numeric_limits<C>::quiet_NaN() - Native<C>{} : v;
  return v;
}

template <bool kNan = true, class E>
GP_INLINE void store_part(E* p, Native<ComputeOf<E>> v) {
  const auto packed = pack_part<kNan>(p, v);
  std::memcpy(static_cast<void*>(p), &packed, sizeof packed);
}

// Streaming stores write whole lines without reading them first. p must be aligned to the packed
// size (16, 32 or 64 bytes); the writer calls stream_fence() before anybody else reads.
GP_INLINE void stream_bytes(void* p, const void* packed, std::integral_constant<int, 16>) {
#if defined(__x86_64__)
  _mm_stream_si128(static_cast<__m128i*>(p), *static_cast<const __m128i*>(packed));
#else
  std::memcpy(p, packed, 16);
#endif
}
GP_INLINE void stream_bytes(void* p, const void* packed, std::integral_constant<int, 32>) {
#if defined(__AVX__)
  _mm256_stream_si256(static_cast<__m256i*>(p), *static_cast<const __m256i*>(packed));
#else
  std::memcpy(p, packed, 32);
#endif
}
GP_INLINE void stream_bytes(void* p, const void* packed, std::integral_constant<int, 64>) {
#if defined(__AVX512F__)
  _mm512_stream_si512(static_cast<__m512i*>(p), *static_cast<const __m512i*>(packed));
#else
  std::memcpy(p, packed, 64);
#endif
}
GP_INLINE void stream_bytes(void* p, const void* packed, std::integral_constant<int, 8>) {
  std::memcpy(p, packed, 8);  // f16 on SSE: too narrow to stream
}

template <bool kNan = true, class E>
GP_INLINE void stream_part(E* p, Native<ComputeOf<E>> v) {
  alignas(64) auto packed = pack_part<kNan>(p, v);
  stream_bytes(p, &packed, std::integral_constant<int, int(sizeof packed)>{});
}

template <class E>
constexpr int kPartBytes = int(sizeof(E)) * Lanes<ComputeOf<E>>::kWidth;

// ---- sixteen lanes -----------------------------------------------------------------------------

template <class E>
GP_INLINE Lanes<ComputeOf<E>> load_lanes(const E* p) {
  using V = Lanes<ComputeOf<E>>;
  V r;
  for (int i = 0; i < V::kParts; ++i) r.part[i] = load_part(p + i * V::kWidth);
  return r;
}

template <bool kNan = true, class E>
GP_INLINE void store_lanes(E* p, const Lanes<ComputeOf<E>>& v) {
  using V = Lanes<ComputeOf<E>>;
  for (int i = 0; i < V::kParts; ++i) store_part<kNan>(p + i * V::kWidth, v.part[i]);
}

template <bool kNan = true, class E>
GP_INLINE void stream_lanes(E* p, const Lanes<ComputeOf<E>>& v) {
  using V = Lanes<ComputeOf<E>>;
  for (int i = 0; i < V::kParts; ++i) stream_part<kNan>(p + i * V::kWidth, v.part[i]);
}

}  // namespace gradplan::lanes
