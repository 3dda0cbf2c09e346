// The gradient of sparsemax: dy minus its mean over the support, on the support.
#pragma once

#include "softmax/lines.h"

namespace gradplan::softmax {

// The contract's row reduction: 16 serial sums from -0.0, one per position modulo 16, then a
// halving tree. V is one number per sum (a line), or 16 (a strip).
template <class V>
GP_INLINE V halving_sum(V (&sums)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) sums[l] = sums[l] + sums[l + half];
  return sums[0];
}

// sum / k. The count is rounded to the compute type (exact below 2^24, or 2^53). An empty support
// has no mean, and nothing to subtract it from.
template <class C>
GP_INLINE C support_mean(C sum, int64_t count) {
  return count == 0 ? C(0) : sum / C(count);
}

template <class V>
GP_INLINE V gradient(const V& dy, const V& y, const V& mean) {
  return select(y > V(0), dy - mean, V(0));
}

template <class L>
__attribute__((noinline)) auto find_mean(L dy, L y) {
  using C = ComputeOfLine<L>;
  using V = Lanes<C>;
  V sums(C(-0.0));
  Lanes<IntOf<C>> count(0);  // a lane counts to 2^31: lines of 2^35
  auto add = [&](const V& g, const V& value) GP_INLINE_LAMBDA {
    const auto in_support = value > V(0);
    sums = sums + select(in_support, g, V(C(-0.0)));
    count = count - in_support;
  };
  in_lanes(
      y.n, 0,
      [&](int64_t i, int some) GP_INLINE_LAMBDA { add(dy.load(i, some, 0), y.load(i, some, 0)); },
      [&](int64_t i) GP_INLINE_LAMBDA { add(dy.load(i), y.load(i)); });
  C sum[kLanes];
  int64_t k = 0;
  sums.store(sum);
  for (int l = 0; l < kLanes; ++l) k += count[l];
  return support_mean(halving_sum(sum), k);
}

template <class L, class C = ComputeOfLine<L>>
__attribute__((noinline)) void write_gradient(L dy, L y, L dx, C mean, bool stream) {
  auto unknown = [](int64_t) GP_INLINE_LAMBDA { return false; };
  write_line(dx, stream, unknown, [&](int64_t i, int count) GP_INLINE_LAMBDA {
    if (count == kLanes) return gradient(dy.load(i), y.load(i), Lanes<C>(mean));
    return gradient(dy.load(i, count, 0), y.load(i, count, 0), Lanes<C>(mean));
  });
}

// One long line: the order of its sum is fixed and serial, but all threads write.
template <class L>
void sparsemax_backward_long_line(L dy, L y, L dx, bool stream) {
  FloatEnvironment environment;
  const auto mean = find_mean(dy, y);
  in_pieces(dx, [&](int64_t, int64_t begin, int64_t end) {
    write_gradient(dy.part(begin, end), y.part(begin, end), dx.part(begin, end), mean, stream);
  });
}

template <class E>
__attribute__((noinline)) void sparsemax_backward_strip(const Strip<E>& dy, const Strip<E>& y,
                                                        const Strip<E>& dx, int64_t n) {
  using C = ComputeOf<E>;
  using V = Lanes<C>;
  const int groups = y.groups();
  V sums[kStripGroups][kLanes];
  for (int g = 0; g < groups; ++g) std::fill_n(sums[g], kLanes, V(C(-0.0)));
  int64_t k[kStripGroups * kLanes] = {};
  constexpr int64_t kPiece = 1 << 30;  // what a 32-bit count holds
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, n);
    Lanes<IntOf<C>> count[kStripGroups];
    std::fill_n(count, kStripGroups, Lanes<IntOf<C>>(0));
    for (int64_t i = begin; i < end; ++i) {
      for (int g = 0; g < groups; ++g) {
        const auto in_support = y.load(i, g, 0) > V(0);
        V& sum = sums[g][i % kLanes];
        sum = sum + select(in_support, dy.load(i, g, 0), V(C(-0.0)));
        count[g] = count[g] - in_support;
      }
    }
    for (int c = 0; c < groups * kLanes; ++c) k[c] += count[c / kLanes][c % kLanes];
  }
  V mean[kStripGroups];
  for (int g = 0; g < groups; ++g) {
    alignas(64) C of_column[kLanes];
    halving_sum(sums[g]).store(of_column);
    for (int l = 0; l < kLanes; ++l) of_column[l] = support_mean(of_column[l], k[g * kLanes + l]);
    mean[g] = V::load(of_column);
  }
  for (int64_t i = 0; i < n; ++i)
    for (int g = 0; g < groups; ++g)
      dx.store(i, g, gradient(dy.load(i, g, 0), y.load(i, g, 0), mean[g]));
}

}  // namespace gradplan::softmax
