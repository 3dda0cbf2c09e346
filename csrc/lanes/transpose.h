// Transposition in registers.
#pragma once

#include <utility>

#include "lanes/elements.h"

namespace gradplan::lanes {

namespace detail {

template <class V, int... I>
GP_INLINE V shuffle(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// The pattern of indices that F gives: F(i) selects from a (i < width) or b.
template <class F, int... I>
constexpr auto pattern(std::integer_sequence<int, I...>) {
  return std::integer_sequence<int, F::at(I)...>{};
}

// Inside each 128-bit unit of U elements: interleave the low (or high) halves of a and b, in runs
// of R.
template <int W, int U, int R, bool High>
struct Interleave {
  static constexpr int at(int i) {
    const int unit = i / U * U, j = i % U;
    const int run = j / R, within = j % R;
    return (run % 2 ? W : 0) + unit + (High ? U / 2 : 0) + run / 2 * R + within;
  }
};

// Whole 128-bit units: first half of the result from a, second from b. Units (Odd + 2k) of each.
template <int W, int U, bool High>
struct UnitHalves {
  static constexpr int at(int i) {
    const int units = W / U, unit = i / U;
    const int half = units / 2;
    return (unit >= half ? W : 0) + ((unit % half) + (High ? half : 0)) * U + i % U;
  }
};

// Even (or odd) units of a, then of b.
template <int W, int U, bool Odd>
struct UnitAlternate {
  static constexpr int at(int i) {
    const int units = W / U, unit = i / U;
    const int half = units / 2;
    return (unit >= half ? W : 0) + ((unit % half) * 2 + (Odd ? 1 : 0)) * U + i % U;
  }
};

template <class P, int W, class V>
GP_INLINE V shuffled(V a, V b) {
  return shuffle(a, b, pattern<P>(std::make_integer_sequence<int, W>{}));
}

}  // namespace detail

// Transposes a matrix of W x W elements held in W native vectors.
template <class C>
GP_INLINE void transpose(Native<C> (&r)[Lanes<C>::kWidth]) {
  using detail::shuffled;
  using V = Native<C>;
  constexpr int W = Lanes<C>::kWidth;
  constexpr int U = 16 / sizeof(C);  // elements of a 128-bit unit
  // Inside units: U x U blocks of U neighbouring rows.
  for (int base = 0; base < W; base += U) {
    if constexpr (U == 4) {
      using Lo = detail::Interleave<W, U, 1, false>;
      using Hi = detail::Interleave<W, U, 1, true>;
      using Lo2 = detail::Interleave<W, U, 2, false>;
      using Hi2 = detail::Interleave<W, U, 2, true>;
      const V t0 = shuffled<Lo, W>(r[base], r[base + 1]);
      const V t1 = shuffled<Hi, W>(r[base], r[base + 1]);
      const V t2 = shuffled<Lo, W>(r[base + 2], r[base + 3]);
      const V t3 = shuffled<Hi, W>(r[base + 2], r[base + 3]);
      r[base] = shuffled<Lo2, W>(t0, t2);
      r[base + 1] = shuffled<Hi2, W>(t0, t2);
      r[base + 2] = shuffled<Lo2, W>(t1, t3);
      r[base + 3] = shuffled<Hi2, W>(t1, t3);
    } else {
      const V t0 = shuffled<detail::Interleave<W, U, 1, false>, W>(r[base], r[base + 1]);
      r[base + 1] = shuffled<detail::Interleave<W, U, 1, true>, W>(r[base], r[base + 1]);
      r[base] = t0;
    }
  }
  // Across units: the W/U x W/U matrix of units.
  if constexpr (W / U == 2) {
    for (int i = 0; i < U; ++i) {
      const V a = r[i], b = r[i + U];
      r[i] = shuffled<detail::UnitHalves<W, U, false>, W>(a, b);
      r[i + U] = shuffled<detail::UnitHalves<W, U, true>, W>(a, b);
    }
  } else if constexpr (W / U == 4) {
    for (int i = 0; i < U; ++i) {
      using Even = detail::UnitAlternate<W, U, false>;
      using Odd = detail::UnitAlternate<W, U, true>;
      const V a = r[i], b = r[i + U], c = r[i + 2 * U], d = r[i + 3 * U];
      const V ab0 = shuffled<Even, W>(a, b), ab1 = shuffled<Odd, W>(a, b);
      const V cd0 = shuffled<Even, W>(c, d), cd1 = shuffled<Odd, W>(c, d);
      r[i] = shuffled<Even, W>(ab0, cd0);
      r[i + 2 * U] = shuffled<Odd, W>(ab0, cd0);
      r[i + U] = shuffled<Even, W>(ab1, cd1);
      r[i + 3 * U] = shuffled<Odd, W>(ab1, cd1);
    }
  }
}

// ---- sixteen-bit elements ----------------------------------------------------------------------
//
// They are transposed as they are, which takes half the shuffles of their compute values.

template <class E>
struct alignas(64) WordTile {
  E at[kLanes][kLanes];
};

namespace detail {
constexpr int kWordVectorBytes = kVectorBytes < 32 ? kVectorBytes : 32;
constexpr int kWordWidth = kWordVectorBytes / 2;
typedef uint16_t Words __attribute__((vector_size(kWordVectorBytes)));
typedef uint16_t WordsUnaligned
    __attribute__((vector_size(kWordVectorBytes), aligned(1), may_alias));

// Inside of 128-bit units: eight rows of eight.
GP_INLINE void transpose_eights(Words (&r)[8]) {
  constexpr int W = kWordWidth, U = 8;
  Words t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = shuffled<Interleave<W, U, 1, false>, W>(r[i], r[i + 1]);
    t[i + 1] = shuffled<Interleave<W, U, 1, true>, W>(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      u[i + 2 * j] = shuffled<Interleave<W, U, 2, false>, W>(t[i + j], t[i + j + 2]);
      u[i + 2 * j + 1] = shuffled<Interleave<W, U, 2, true>, W>(t[i + j], t[i + j + 2]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    r[2 * j] = shuffled<Interleave<W, U, 4, false>, W>(u[j], u[j + 4]);
    r[2 * j + 1] = shuffled<Interleave<W, U, 4, true>, W>(u[j], u[j + 4]);
  }
}
}  // namespace detail

// row(i) is the address of row i, which becomes column i.
template <class E, class Row>
GP_INLINE void transpose_words(Row row, WordTile<E>& to) {
  using detail::Words, detail::WordsUnaligned, detail::shuffled;
  constexpr int W = detail::kWordWidth;
  if constexpr (W == 8) {
    for (int i = 0; i < kLanes; i += 8) {
      for (int j = 0; j < kLanes; j += 8) {
        Words r[8];
        for (int k = 0; k < 8; ++k) r[k] = *reinterpret_cast<const WordsUnaligned*>(row(i + k) + j);
        detail::transpose_eights(r);
        for (int k = 0; k < 8; ++k) *reinterpret_cast<WordsUnaligned*>(&to.at[j + k][i]) = r[k];
      }
    }
  } else {
    Words r[2][8];
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < 8; ++k)
        r[half][k] = *reinterpret_cast<const WordsUnaligned*>(row(8 * half + k));
      detail::transpose_eights(r[half]);
    }
    for (int k = 0; k < 8; ++k) {
      using Low = detail::UnitHalves<W, 8, false>;
      using High = detail::UnitHalves<W, 8, true>;
      *reinterpret_cast<WordsUnaligned*>(to.at[k]) = shuffled<Low, W>(r[0][k], r[1][k]);
      *reinterpret_cast<WordsUnaligned*>(to.at[k + 8]) = shuffled<High, W>(r[0][k], r[1][k]);
    }
  }
}

}  // namespace gradplan::lanes
