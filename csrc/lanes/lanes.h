// Sixteen lanes, the one vector width of the numerical contract.
//
// A Lanes<T> is 16 values of T held in as many native vectors as the build's instruction set needs
// (four SSE/NEON, two AVX, one AVX-512 register for f32). Every operation is elementwise, so the
// bits cannot depend on the split. Compile with -ffp-contract=off.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lanes/order.h"

namespace gradplan::lanes {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

#define GP_INLINE inline __attribute__((always_inline))
// For lambdas in hot loops: what they capture stays in registers.
#define GP_INLINE_LAMBDA __attribute__((always_inline))

template <class T>
struct NativeVector {
  typedef T type __attribute__((vector_size(kVectorBytes)));
  // The same vector at any address, and allowed to alias the buffers of the caller.
  typedef T unaligned __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
};

// The signed integer as wide as T: masks and bit patterns.
template <class T>
using IntOf = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

template <class T>
struct Lanes {
  using Native = typename NativeVector<T>::type;
  static constexpr int kWidth = kVectorBytes / sizeof(T);
  static constexpr int kParts = kLanes / kWidth;
  Native part[kParts];

  Lanes() = default;
  GP_INLINE Lanes(T value) {  // NOLINT: a scalar is 16 equal lanes, as in the contract's formulas
    // value - 0 and not value + 0: it keeps -0.0.
    for (int p = 0; p < kParts; ++p) part[p] = value - Native{};
  }
  GP_INLINE static Lanes load(const T* from) {
    Lanes r;
    auto* v = reinterpret_cast<const typename NativeVector<T>::unaligned*>(from);
    for (int p = 0; p < kParts; ++p) r.part[p] = v[p];
    return r;
  }
  GP_INLINE void store(T* to) const {
    auto* v = reinterpret_cast<typename NativeVector<T>::unaligned*>(to);
    for (int p = 0; p < kParts; ++p) v[p] = part[p];
  }
  GP_INLINE T operator[](int lane) const { return part[lane / kWidth][lane % kWidth]; }
};

#define GP_BINARY(op)                                                              \
  template <class T>                                                               \
  GP_INLINE Lanes<T> operator op(const Lanes<T>& a, const Lanes<T>& b) {           \
    Lanes<T> r;                                                                    \
    for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = a.part[p] op b.part[p]; \
    return r;                                                                      \
  }
GP_BINARY(+)
GP_BINARY(-)
GP_BINARY(*)
GP_BINARY(/)
GP_BINARY(&)
GP_BINARY(|)
GP_BINARY(^)
#undef GP_BINARY

template <class T>
GP_INLINE Lanes<T> operator-(const Lanes<T>& a) {
  Lanes<T> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = -a.part[p];
  return r;
}

template <class T>
GP_INLINE Lanes<T> operator~(const Lanes<T>& a) {
  Lanes<T> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = ~a.part[p];
  return r;
}

template <class T>
GP_INLINE Lanes<T> operator<<(const Lanes<T>& a, int bits) {
  Lanes<T> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = a.part[p] << bits;
  return r;
}

template <class T>
GP_INLINE Lanes<T> operator>>(const Lanes<T>& a, int bits) {  // arithmetic for signed T
  Lanes<T> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = a.part[p] >> bits;
  return r;
}

// Comparisons give masks: all bits set where true.
template <class T>
using Mask = Lanes<IntOf<T>>;

#define GP_COMPARE(op)                                                  \
  template <class T>                                                    \
  GP_INLINE Mask<T> operator op(const Lanes<T>& a, const Lanes<T>& b) { \
    Mask<T> r;                                                          \
    for (int p = 0; p < Lanes<T>::kParts; ++p)                          \
      r.part[p] = (typename Mask<T>::Native)(a.part[p] op b.part[p]);   \
    return r;                                                           \
  }
GP_COMPARE(==)
GP_COMPARE(!=)
GP_COMPARE(<)
GP_COMPARE(<=)
GP_COMPARE(>)
GP_COMPARE(>=)
#undef GP_COMPARE

template <class T>
GP_INLINE Lanes<T> select(const Mask<T>& mask, const Lanes<T>& yes, const Lanes<T>& no) {
  Lanes<T> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = mask.part[p] ? yes.part[p] : no.part[p];
  return r;
}

// The same on one native vector.
#define GP_SELECT(T)                                                                            \
  GP_INLINE NativeVector<T>::type select(NativeVector<IntOf<T>>::type mask,                     \
                                         NativeVector<T>::type yes, NativeVector<T>::type no) { \
    return mask ? yes : no;                                                                     \
  }
GP_SELECT(float)
GP_SELECT(double)
#undef GP_SELECT

// The same bits as another element type of the same size.
template <class To, class T>
GP_INLINE Lanes<To> bitcast(const Lanes<T>& a) {
  static_assert(sizeof(To) == sizeof(T));
  Lanes<To> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p) r.part[p] = (typename Lanes<To>::Native)a.part[p];
  return r;
}

// Numeric conversion between types of the same size; float to integer truncates.
template <class To, class T>
GP_INLINE Lanes<To> convert(const Lanes<T>& a) {
  static_assert(sizeof(To) == sizeof(T));
  Lanes<To> r;
  for (int p = 0; p < Lanes<T>::kParts; ++p)
    r.part[p] = __builtin_convertvector(a.part[p], typename Lanes<To>::Native);
  return r;
}

// The same names on plain scalars, so that one piece of code serves a lane and 16 of them.
template <class T>
  requires std::is_arithmetic_v<T>
GP_INLINE T select(bool mask, T yes, T no) {
  return mask ? yes : no;
}

template <class To, class T>
  requires std::is_arithmetic_v<T>
GP_INLINE To bitcast(T a) {
  static_assert(sizeof(To) == sizeof(T));
  return __builtin_bit_cast(To, a);
}

template <class To, class T>
  requires std::is_arithmetic_v<T>
GP_INLINE To convert(T a) {
  return static_cast<To>(a);
}

// A type of the same shape (16 lanes or one) with other elements.
template <class V, class T>
struct RebindImpl {
  using type = T;
};
template <class U, class T>
struct RebindImpl<Lanes<U>, T> {
  using type = Lanes<T>;
};
template <class V, class T>
using Rebind = typename RebindImpl<V, T>::type;

template <class V>
struct ElementImpl {
  using type = V;
};
template <class U>
struct ElementImpl<Lanes<U>> {
  using type = U;
};
template <class V>
using ElementOf = typename ElementImpl<V>::type;

// A native vector about which the compiler knows nothing. Of long chains of selects it would work
// out far too much: they took half of a scan's build time.
template <class N>
GP_INLINE N opaque(N v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

// `value` in every place of V: sixteen lanes, a native vector, or one number.
template <class V, class T>
GP_INLINE V broadcast(T value) {
  if constexpr (std::is_class_v<V>)
    return V(value);
  else
    return value - V{};
}

template <class V>
using MaskOf = std::conditional_t<std::is_arithmetic_v<V>, bool, Rebind<V, IntOf<ElementOf<V>>>>;

}  // namespace gradplan::lanes
