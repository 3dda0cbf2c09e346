// The gradient of sparsemax along one axis: dy minus its mean over the support, on the support.
#include "ffi/kernel.h"
#include "lanes/visit.h"
#include "softmax/lines.h"
#include "softmax/row_reduction.h"

namespace gradplan::softmax {
namespace {

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
  Lanes<IntOf<C>> count(0);  // a lane counts to 2^31: lines of 2^35
  const auto in_support = [&](const V& g, const V& value) GP_INLINE_LAMBDA {
    const auto mask = value > V(0);
    count = count - mask;
    return select(mask, g, Sum::identity<V>());
  };
  const C sum = reduce_row<Sum, C>(
      y.n,
      [&](int64_t i, int some)
          GP_INLINE_LAMBDA { return in_support(dy.load(i, some, 0), y.load(i, some, 0)); },
      [&](int64_t i) GP_INLINE_LAMBDA { return in_support(dy.load(i), y.load(i)); });
  int64_t k = 0;
  for (int l = 0; l < kLanes; ++l) k += count[l];
  return support_mean(sum, k);
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
  for (int g = 0; g < groups; ++g) std::fill_n(sums[g], kLanes, Sum::identity<V>());
  int64_t k[kStripGroups * kLanes] = {};
  constexpr int64_t kPiece = 1 << 30;  // what a 32-bit count holds
  constexpr int64_t kRows = kUninterrupted / (kStripGroups * kLanes);
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, n);
    Lanes<IntOf<C>> count[kStripGroups];
    std::fill_n(count, kStripGroups, Lanes<IntOf<C>>(0));
    for (int64_t i = begin; i < end; ++i) {
      if (i % kRows == 0) check_interruption();
      for (int g = 0; g < groups; ++g) {
        const auto in_support = y.load(i, g, 0) > V(0);
        V& sum = sums[g][i % kLanes];
        sum = Sum::apply(sum, select(in_support, dy.load(i, g, 0), Sum::identity<V>()));
        count[g] = count[g] - in_support;
      }
    }
    for (int c = 0; c < groups * kLanes; ++c) k[c] += count[c / kLanes][c % kLanes];
  }
  V mean[kStripGroups];
  for (int g = 0; g < groups; ++g) {
    alignas(64) C of_column[kLanes];
    halving_tree<Sum>(sums[g]).store(of_column);
    for (int l = 0; l < kLanes; ++l) of_column[l] = support_mean(of_column[l], k[g * kLanes + l]);
    mean[g] = V::load(of_column);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (i % kRows == 0) check_interruption();
    for (int g = 0; g < groups; ++g)
      dx.store(i, g, gradient(dy.load(i, g, 0), y.load(i, g, 0), mean[g]));
  }
}

template <class E>
void backward(const Geometry<E>& geometry) {
  const bool stream = exceeds_caches(geometry.moved());
  if (has_long_lines(geometry)) {
    for (int64_t r = 0; r < geometry.rows; ++r)
      sparsemax_backward_long_line(line_of(geometry, r, 0), line_of(geometry, r, 1),
                                   line_of(geometry, r, 2), stream);
    return;
  }
  visit_lines<3>(
      geometry,
      [&](auto& lines) {
        write_gradient(lines[0], lines[1], lines[2], find_mean(lines[0], lines[1]), stream);
      },
      [&](auto& strips) { sparsemax_backward_strip(strips[0], strips[1], strips[2], geometry.n); });
}

BoundKernel bind_backward(const Problem& problem) {
  const int dy = problem.at("dy"), y = problem.at("y"), dx = problem.at("dx");
  const int axis = int(problem.integer("softmax_axis"));
  return {[=](const Operand* operands, char*) {
    visit_element(operands[dy].dtype, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      backward(Geometry<E>({&operands[dy], &operands[y], &operands[dx]}, axis, false));
    });
  }};
}

const Registration sparsemax_backward({.name = "sparsemax_backward",
                                       .tensors = {"dy", "y", "dx"},
                                       .attributes = {{"softmax_axis"}},
                                       .elements = kFloats,
                                       .bind = bind_backward});

}  // namespace
}  // namespace gradplan::softmax
