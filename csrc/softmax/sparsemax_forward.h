// sparsemax: the projection of each line onto the probability simplex.
#pragma once

#include <atomic>

#include "softmax/lines.h"
#include "softmax/sparsemax_threshold.h"

namespace gradplan::softmax {

template <class C>
constexpr C kInfinity = std::numeric_limits<C>::infinity();

// Maxima of 64 disjoint parts of a line (lane by lane), and whether all is below +inf and no NaN.
template <class C>
struct Maxima {
  static constexpr int kGroups = 4;
  Lanes<C> group[kGroups];
  Mask<C> sound;

  Maxima() : sound(-1) { std::fill_n(group, kGroups, Lanes<C>(-kInfinity<C>)); }

  GP_INLINE void add(int g, const Lanes<C>& x) {
    group[g] = select(x > group[g], x, group[g]);
    sound = sound & (x < Lanes<C>(kInfinity<C>));
  }
  bool is_sound() const { return !any(~sound); }
  C highest() const {
    Lanes<C> all = group[0];
    for (int g = 1; g < kGroups; ++g) all = select(group[g] > all, group[g], all);
    C top = all[0];
    for (int l = 1; l < kLanes; ++l) top = std::max(top, all[l]);
    return top;
  }
  // The line's maximum, or NaN if the result is to be NaN.
  C top() const {
    const C top = highest();
    return is_sound() && top != -kInfinity<C> ? top : std::numeric_limits<C>::quiet_NaN();
  }
};

template <class L, class C = ComputeOfLine<L>>
Maxima<C> find_maxima(L x) {
  constexpr int kGroups = Maxima<C>::kGroups;
  Maxima<C> maxima;
  int64_t i = 0;
  for (; i + kGroups * kLanes <= x.n; i += kGroups * kLanes)
    for (int g = 0; g < kGroups; ++g) maxima.add(g, x.load(i + g * kLanes));
  for (int g = 0; i < x.n; i += kLanes, ++g)
    maxima.add(g, x.load(i, int(std::min<int64_t>(kLanes, x.n - i)), -kInfinity<C>));
  return maxima;
}

// Which parts of a line may be in the support: all, unless begun with.
class Touched {
 public:
  // Nothing so far.
  void begin(int64_t n) {
    shift_ = 6;
    while (n >> shift_ >= kParts) ++shift_;
    std::fill_n(bits_, (n >> shift_) / 64 + 1, 0);
  }
  void add(int64_t i) { bits_[i >> shift_ >> 6] |= uint64_t{1} << (i >> shift_ & 63); }
  void add_all() { shift_ = kEverything; }
  // None of the 64 elements from i is.
  GP_INLINE bool none(int64_t i) const {
    return shift_ != kEverything && !has(i >> shift_) && !has((i + 63) >> shift_);
  }

 private:
  static constexpr int kParts = 4096, kEverything = 0;
  GP_INLINE bool has(int64_t part) const { return bits_[part >> 6] >> (part & 63) & 1; }
  int shift_ = kEverything;
  uint64_t bits_[kParts / 64];
};

// Appends to the list everything in x that may be above the threshold, which may rise on the way.
// False if there is no room: the list is useless then, the threshold still is a lower bound.
// `touched` gets a superset of where x - top > tau: the bound's slack covers the rounding of tau.
template <class L, class C = ComputeOfLine<L>>
bool gather(L x, C top, IntOf<C>& threshold, Candidates<C>& list, Touched& touched) {
  using V = Lanes<C>;
  constexpr int kGroups = 4;
  C bound = loose_bound(top, threshold);
  touched.begin(x.n);
  int64_t i = 0;
  for (; i + kGroups * kLanes <= x.n; i += kGroups * kLanes) {
    Mask<C> near(0);
    for (int g = 0; g < kGroups; ++g) near = near | (x.load(i + g * kLanes) > V(bound));
    if (!any(near)) continue;
    if (!list.has_room(kGroups * kLanes)) {
      list.refine(threshold);
      if (list.size > Candidates<C>::kCapacity / 2) break;
      bound = loose_bound(top, threshold);
    }
    touched.add(i);
    for (int g = 0; g < kGroups; ++g)
      list.append(to_fixed(x.load(i + g * kLanes) - V(top)), threshold);
  }
  for (; i < x.n && list.has_room(kLanes); i += kLanes) {
    const int count = int(std::min<int64_t>(kLanes, x.n - i));
    touched.add(i);
    list.append(to_fixed(x.load(i, count, -kInfinity<C>) - V(top)), threshold);
  }
  if (i < x.n) touched.add_all();
  return i >= x.n;
}

// One Newton step over the line itself, for supports that fit no list.
template <class L, class C = ComputeOfLine<L>>
Above<C> sum_above(L x, C top, IntOf<C> threshold) {
  using I = IntOf<C>;
  Above<C> all;
  constexpr int64_t kPiece = AboveLanes<C>::kMost * kLanes;
  for (int64_t begin = 0; begin < x.n; begin += kPiece) {
    if (x.n > kUninterrupted) check_interruption();
    AboveLanes<C> above;
    const L piece = x.part(begin, std::min(begin + kPiece, x.n));
    auto add = [&](const Lanes<C>& values) GP_INLINE_LAMBDA {
      const auto q = to_fixed(values - Lanes<C>(top));
      above.add(q, q > Lanes<I>(threshold));
    };
    in_lanes(
        piece.n, 0,
        [&](int64_t i, int count) GP_INLINE_LAMBDA { add(piece.load(i, count, -kInfinity<C>)); },
        [&](int64_t i) GP_INLINE_LAMBDA { add(piece.load(i)); });
    all += above.total();
  }
  return all;
}

// The maxima are elements of the line: the first lower bound comes from them.
template <class C>
__attribute__((noinline)) Above<C> start(const Maxima<C>& maxima, C top, IntOf<C>& threshold) {
  using I = IntOf<C>;
  constexpr int kGroups = Maxima<C>::kGroups;
  Lanes<I> q[kGroups];
  for (int g = 0; g < kGroups; ++g) q[g] = to_fixed(maxima.group[g] - Lanes<C>(top));
  threshold = -kFixedOne<C>;
  return raise<C>(threshold, [&](I t) GP_INLINE_LAMBDA {
    AboveLanes<C> above;
    for (int g = 0; g < kGroups; ++g) above.add(q[g], q[g] > Lanes<I>(t));
    return above.total();
  });
}

template <class L, class C = ComputeOfLine<L>>
C find_tau(L x, const Maxima<C>& maxima, C top, Touched& touched) {
  using I = IntOf<C>;
  I threshold;
  const Above<C> above = start(maxima, top, threshold);
  if (x.n <= Maxima<C>::kGroups * kLanes) return above.tau(threshold);  // they are the whole line
  Candidates<C> list;
  if (gather(x, top, threshold, list, touched)) return list.refine(threshold).tau(threshold);
  return raise<C>(threshold, [&](I t) { return sum_above(x, top, t); }).tau(threshold);
}

// What a line becomes once `top` and `tau` are known. top = NaN makes it all NaN.
template <class V>
GP_INLINE V project(const V& x, const V& top, const V& tau) {
  const V v = x - top;
  return select(v <= tau, V(0), v - tau);
}

template <class L, class C = ComputeOfLine<L>>
void write_projection(L x, L y, C top, C tau, const Touched& touched, bool stream) {
  auto is_zero = [&](int64_t i) GP_INLINE_LAMBDA { return touched.none(i); };
  write_line(y, stream, is_zero, [&](int64_t i, int count) GP_INLINE_LAMBDA {
    const auto v = count == kLanes ? x.load(i) : x.load(i, count, top);
    return project(v, Lanes<C>(top), Lanes<C>(tau));
  });
}

template <class L, class C = ComputeOfLine<L>>
__attribute__((noinline)) void sparsemax_line(L x, L y, bool stream) {
  const Maxima<C> maxima = find_maxima(x);
  const C top = maxima.top();
  Touched touched;
  if (x.n > kUninterrupted) check_interruption();
  const C tau = top == top ? find_tau(x, maxima, top, touched) : top;
  if (x.n > kUninterrupted) check_interruption();
  write_projection(x, y, top, tau, touched, stream);
}

// One long line on all threads: the same steps, in pieces. Every piece raises the threshold as far
// as it can on its own; what is left of its list joins the others'.
template <class L, class C = ComputeOfLine<L>>
C find_long_tau(L x, const Maxima<C>& maxima, C top) {
  using I = IntOf<C>;
  I bound;
  start(maxima, top, bound);
  Candidates<C> survivors;
  std::atomic<I> threshold{bound};
  std::atomic<int64_t> size{0};
  std::atomic<bool> fit{true};
  in_pieces(x, [&](int64_t, int64_t begin, int64_t end) {
    Candidates<C> list;
    I own = threshold.load(std::memory_order_relaxed);
    Touched unused;
    const bool gathered = gather(x.part(begin, end), top, own, list, unused);
    if (gathered) list.refine(own);
    for (I old = threshold; old < own && !threshold.compare_exchange_weak(old, own);) continue;
    const int64_t at = gathered ? size.fetch_add(list.size) : 0;
    if (gathered && at + list.size <= Candidates<C>::kCapacity)
      std::copy_n(list.value, list.size, survivors.value + at);
    else
      fit.store(false, std::memory_order_relaxed);
  });
  bound = threshold;
  survivors.size = size;
  if (fit) return survivors.refine(bound).tau(bound);
  const Above<C> above = raise<C>(bound, [&](I t) {
    Above<C> sums[kLinePieces];
    in_pieces(x, [&](int64_t p, int64_t begin, int64_t end) {
      sums[p] = sum_above(x.part(begin, end), top, t);
    });
    Above<C> all;
    for (const Above<C>& sum : sums) all += sum;
    return all;
  });
  return above.tau(bound);
}

template <class L, class C = ComputeOfLine<L>>
void sparsemax_long_line(L x, L y, bool stream) {
  static_assert(kLinePieces == Maxima<C>::kGroups * kLanes);
  FloatEnvironment environment;

  C highest[kLinePieces];
  std::fill_n(highest, kLinePieces, -kInfinity<C>);
  std::atomic<bool> sound{true};
  in_pieces(x, [&](int64_t p, int64_t begin, int64_t end) {
    const Maxima<C> maxima = find_maxima(x.part(begin, end));
    highest[p] = maxima.highest();
    if (!maxima.is_sound()) sound.store(false, std::memory_order_relaxed);
  });
  Maxima<C> maxima;
  for (int g = 0; g < Maxima<C>::kGroups; ++g) maxima.add(g, Lanes<C>::load(highest + g * kLanes));
  const C top = sound ? maxima.top() : std::numeric_limits<C>::quiet_NaN();

  const C tau = top == top ? find_long_tau(x, maxima, top) : top;
  in_pieces(x, [&](int64_t, int64_t begin, int64_t end) {
    write_projection(x.part(begin, end), y.part(begin, end), top, tau, Touched(), stream);
  });
}

}  // namespace gradplan::softmax
