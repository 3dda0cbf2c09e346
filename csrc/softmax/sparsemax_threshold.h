// The threshold of sparsemax, in integers.
//
// With q the shifted row in fixed point and c = 2^F, the threshold t solves f(t) = c where f(t) is
// the sum of max(q - t, 0). f is convex and falling, so the solution is unique, and Newton's step
// (Michelot's), t' = (sum of q over S - c) / |S| with S = {q > t}, taken from a lower bound, goes
// up and never past it. Each step at least halves f - c or |S|, so there are few. Two facts make it
// cheap:
//
// 1. q is an integer, so {q > t} = {q > floor(t)}: only floor(t) is kept. Sums are exact, in any
//    order.
// 2. For ANY subset A of the row, t = (sum of q over A - c) / |A| is a lower bound: there the sum
// of
//    q - t over A is c, so f(t) >= c. A threshold found from a part of the row prunes the rest.
#pragma once

#include <cmath>
#include <utility>

#include "lanes/compact.h"
#include "memory/access.h"

namespace gradplan::softmax {
using namespace lanes;
using namespace memory;

namespace detail {
template <class V, size_t... L>
GP_INLINE V rotate_lanes(V v, std::index_sequence<L...>, auto by) {
  return __builtin_shufflevector(v, v, int((L + by) % sizeof...(L))...);
}
}  // namespace detail

// The sum of 16 integers, which must not overflow.
template <class I>
GP_INLINE I sum_lanes(const Lanes<I>& v) {
  constexpr int kWidth = Lanes<I>::kWidth;
  constexpr auto kAll = std::make_index_sequence<kWidth>{};
  auto sum = v.part[0];
  for (int p = 1; p < Lanes<I>::kParts; ++p) sum += v.part[p];
  if constexpr (kWidth >= 16)
    sum += detail::rotate_lanes(sum, kAll, std::integral_constant<int, 8>{});
  if constexpr (kWidth >= 8)
    sum += detail::rotate_lanes(sum, kAll, std::integral_constant<int, 4>{});
  if constexpr (kWidth >= 4)
    sum += detail::rotate_lanes(sum, kAll, std::integral_constant<int, 2>{});
  sum += detail::rotate_lanes(sum, kAll, std::integral_constant<int, 1>{});
  return sum[0];
}

// The contract's F.
template <class C>
constexpr int kFixedBits = sizeof(C) == 8 ? 60 : 30;
template <class C>
constexpr IntOf<C> kFixedOne = IntOf<C>{1} << kFixedBits<C>;
// Wide enough for a sum over any row.
template <class C>
using FixedSum = std::conditional_t<sizeof(C) == 8, __int128, int64_t>;

// trunc(v * 2^F) for -1 < v <= 0, and -2^F, which no threshold lets pass, for less than that and
// NaN.
template <class C>
GP_INLINE Lanes<IntOf<C>> to_fixed(const Lanes<C>& v) {
  using V = Lanes<C>;
  constexpr C kHalf = C(int64_t{1} << 30);
  const V w = select(v > V(-1), v, V(-1)) * V(kHalf);
  if constexpr (sizeof(C) == 4) {
    return convert<int32_t>(w);
  } else {
    // In two halves of 30 bits: AVX2 has no conversion to 64-bit integers. Adding 1.5 * 2^52 rounds
    // to an integer and shows it in the low bits; trunc is up here.
    const V magic(0x1.8p52);
    auto up = [&](const V& x) GP_INLINE_LAMBDA {
      const V r = (x + magic) - magic;
      return select(r < x, r + V(1), r);
    };
    auto integer = [&](const V& x) GP_INLINE_LAMBDA {
      return bitcast<int64_t>(x + magic) - bitcast<int64_t>(magic);
    };
    const V high = up(w);
    const V low = up((w - high) * V(kHalf));
    return (integer(high) << 30) + integer(low);
  }
}

// A number below every x whose to_fixed(x - top) is above the threshold: a test that needs neither
// the subtraction nor the conversion. (x - top rounds monotonically, so only the errors made here
// count.)
template <class C>
GP_INLINE C loose_bound(C top, IntOf<C> threshold) {
  constexpr C kSlack = C(8) * std::numeric_limits<C>::epsilon();
  const C bound = top + (C(threshold) * (C(1) / C(kFixedOne<C>)) - kSlack);
  return bound - kSlack * std::abs(bound);
}

// Sum and number of the elements above a threshold.
template <class C>
struct Above {
  FixedSum<C> sum = 0;
  int64_t count = 0;

  Above& operator+=(const Above& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
  // Newton's step, rounded down.
  IntOf<C> threshold() const {
    const FixedSum<C> excess = sum - kFixedOne<C>;
    const FixedSum<C> quotient = excess / count;
    return IntOf<C>(quotient - (quotient * count > excess));
  }
  // At the fixed point, where threshold() is `t`: the same as a number of the compute type.
  C tau(IntOf<C> t) const {
    const int64_t rest = int64_t(sum - kFixedOne<C> - FixedSum<C>(t) * count);
    return C((double(t) + double(rest) / double(count)) * (1.0 / double(kFixedOne<C>)));
  }
};

// Above, lane by lane. Low and high half of each number are summed apart, in the integer type
// itself: good for kMost additions, after which even the sum of all lanes fits.
template <class C>
struct AboveLanes {
  using I = IntOf<C>;
  static constexpr int kHalfBits = kFixedBits<C> / 2;
  static constexpr int64_t kMost = 1 << 11;
  Lanes<I> low{0}, high{0}, count{0};

  GP_INLINE void add(const Lanes<I>& q, const Mask<C>& mask) {
    const Lanes<I> picked = q & mask;
    low = low + (picked & Lanes<I>((I{1} << kHalfBits) - 1));
    high = high + (picked >> kHalfBits);
    count = count - mask;
  }
  Above<C> lane(int l) const { return join(low[l], high[l], count[l]); }
  GP_INLINE Above<C> total() const {
    return join(sum_lanes(low), sum_lanes(high), sum_lanes(count));
  }

 private:
  GP_INLINE static Above<C> join(I low, I high, I count) {
    return {FixedSum<C>(high) * (int64_t{1} << kHalfBits) + low, int64_t(count)};
  }
};

// Newton's steps by sum(threshold) while they raise the threshold. Over a part of the row they may
// lead down, or to an empty sum: its own solution can lie below the threshold known already, which
// then stays.
template <class C, class Sum>
GP_INLINE Above<C> raise(IntOf<C>& threshold, Sum&& sum) {
  for (;;) {
    const Above<C> above = sum(threshold);
    if (above.count == 0) return above;
    const IntOf<C> next = above.threshold();
    if (next <= threshold) return above;
    threshold = next;
  }
}

// Candidates for the support.
template <class C>
struct Candidates {
  using I = IntOf<C>;
  static constexpr int64_t kCapacity = 4096;
  static constexpr int64_t kFew = 8 * kLanes;  // not worth shortening
  static_assert(kCapacity / kLanes <= AboveLanes<C>::kMost);
  int64_t size = 0;
  alignas(64) I value[kCapacity + 2 * kLanes];

  bool has_room(int64_t more) const { return size + more <= kCapacity; }

  GP_INLINE void append(const Lanes<I>& q, I threshold) {
    size = compact(value + size, q, q > Lanes<I>(threshold)) - value;
  }

  // Raises the threshold to the solution for the list, and drops most of what is below it. Where
  // the list has all of the support this is the answer.
  __attribute__((noinline)) Above<C> refine(I& threshold) {
    return raise<C>(threshold,
                    [&](I t) GP_INLINE_LAMBDA { return size > kFew ? filter(t) : sum(t); });
  }

 private:
  Above<C> filter(I threshold) {
    pad();
    AboveLanes<C> above;
    I* to = value;
    for (int64_t i = 0; i < size; i += kLanes) {
      const auto q = Lanes<I>::load(value + i);
      const auto mask = q > Lanes<I>(threshold);
      above.add(q, mask);
      to = compact(to, q, mask);
    }
    size = to - value;
    return above.total();
  }

  Above<C> sum(I threshold) {
    pad();
    AboveLanes<C> above;
    for (int64_t i = 0; i < size; i += kLanes) {
      const auto q = Lanes<I>::load(value + i);
      above.add(q, q > Lanes<I>(threshold));
    }
    return above.total();
  }

  void pad() { Lanes<I>(-kFixedOne<C>).store(value + size); }
};

}  // namespace gradplan::softmax
