// lerp, y = a + w (b - a), and its gradient.
#include <algorithm>
#include <cmath>

#include "ffi/kernel.h"
#include "lanes/mask_bits.h"
#include "lanes/visit.h"
#include "memory/runs.h"
#include "memory/streams.h"
#include "pointwise/write_run.h"

namespace gradplan::pointwise {
using namespace ffi;
using namespace lanes;
using namespace memory;

namespace {

// a + w (b - a), or from the other end, so that both ends are exact. The second form is written as
// b + (b - a) (-(1 - w)): x - p and x + (-p) are the same operation. Where b - a overflows although
// a and b are finite it is a (1 - w) + b w.
template <class E>
struct Weight {
  using C = ComputeOf<E>;
  using V = Lanes<C>;
  bool from_b;
  C w, rest, factor;

  // noinline: the conversion must stay behind the change of the rounding mode.
  __attribute__((noinline)) static Weight of(double param) {
    const C w = C(param), rest = C(1) - w;
    const bool from_b = !(std::abs(w) < C(0.5));
    return {from_b, w, rest, from_b ? -rest : w};
  }
  template <bool FromB>
  GP_INLINE V hasty(const V& a, const V& b, const V& span) const {
    return (FromB ? b : a) + span * V(factor);
  }
  // Are the differences and the weight finite? Then no result is NaN, and the hasty one is right.
  GP_INLINE bool ordinary(const V& span) const {
    typename V::Native zero = factor * typename V::Native{};
    for (int p = 0; p < V::kParts; ++p) zero = zero * span.part[p];
    return !any_nan(zero);
  }
  template <bool FromB>
  GP_INLINE V careful(const V& a, const V& b) const {
    const V span = b - a, zero = V(C(0));
    const auto overflows = (span - span != zero) & (a - a == zero) & (b - b == zero);
    return select(overflows, a * V(rest) + b * V(w), hasty<FromB>(a, b, span));
  }
};

// Out of line, from memory to memory: nothing is kept at hand for it.
template <bool FromB, class E, bool kStream>
__attribute__((noinline, cold)) void lerp_carefully(const Weight<E>& w, const E* a, const E* b,
                                                    Place<E, kStream> place) {
  place.put(w.template careful<FromB>(load_lanes(a), load_lanes(b)));
}

template <bool FromB, class E>
void lerp_run(const Weight<E>& weight, const E* a, const E* b, E* y, const Offsets& stride,
              int64_t n, bool stream) {
  const Weight<E> w = weight;  // a copy that no output can lie on: it stays in registers
  write_run<3>(
      y, stride, n, stream,
      [&](int64_t i, int count) GP_INLINE_LAMBDA {
        const auto va = load_any(a + i * stride[0], stride[0], count, 0);
        const auto vb = load_any(b + i * stride[1], stride[1], count, 0);
        return w.template careful<FromB>(va, vb);
      },
      [&](int64_t i, auto place) GP_INLINE_LAMBDA {
        const auto va = load_lanes(a + i), vb = load_lanes(b + i), span = vb - va;
        if constexpr (std::is_same_v<E, F16>)  // far from overflow
          place.put(w.template hasty<FromB>(va, vb, span));
        else if (w.ordinary(span)) [[likely]]
          place.template put<false>(w.template hasty<FromB>(va, vb, span));
        else
          lerp_carefully<FromB>(weight, a + i, b + i, place);
      });
}

BoundKernel bind_lerp(const Problem& problem) {
  const int a = problem.at("a"), b = problem.at("b"), y = problem.at("y");
  const double param = problem.real("param");
  const int64_t count = count_elements(problem.shape[y]);
  return {[=](const Operand* operands, char*) {
    visit_element(operands[y].dtype, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      const E* pa = operands[a].as<E>();
      const E* pb = operands[b].as<E>();
      E* py = operands[y].as<E>();
      const bool stream = exceeds_caches(3 * count * int64_t(sizeof(E)));
      for_each_run({&operands[a], &operands[b], &operands[y]},
                   [&](const Offsets& at, const Offsets& stride, int64_t n) {
                     const auto w = Weight<E>::of(param);
                     (w.from_b ? lerp_run<true, E> : lerp_run<false, E>)(w, pa + at[0], pb + at[1],
                                                                         py + at[2], stride, n,
                                                                         stream);
                   });
    });
  }};
}

template <class E>
__attribute__((noinline)) void lerp_backward_run(double param, const E* dy, E* da, E* db,
                                                 const Offsets& stride, int64_t n, bool stream) {
  using C = ComputeOf<E>;
  const Lanes<C> w = C(param);
  const Lanes<C> rest = C(1) - C(param);
  // dy may be da or db: it is read before either is written.
  auto some = [&](int64_t i, int count) GP_INLINE_LAMBDA {
    const auto v = load_any(dy + i * stride[0], stride[0], count, 0);
    store_any(da + i * stride[1], stride[1], count, rest * v);
    store_any(db + i * stride[2], stride[2], count, w * v);
  };
  if (stride[0] != 1 || stride[1] != 1 || stride[2] != 1) {
    for (int64_t i = 0; i < n; i += kLanes) some(i, int(std::min<int64_t>(kLanes, n - i)));
  } else if (stream && streamable(db + elements_to_line(da))) {
    touch_pages(da, n);
    touch_pages(db, n);
    in_lanes(n, elements_to_line(da), some, [&](int64_t i) GP_INLINE_LAMBDA {
      const auto v = load_lanes(dy + i);
      stream_lanes(da + i, rest * v);
      stream_lanes(db + i, w * v);
    });
  } else {
    in_lanes(n, 0, some, [&](int64_t i) GP_INLINE_LAMBDA {
      const auto v = load_lanes(dy + i);
      store_lanes(da + i, rest * v);
      store_lanes(db + i, w * v);
    });
  }
}

// One of the two gradients alone.
template <class E>
__attribute__((noinline)) void scale_run(double param, bool complement, const E* dy, E* dx,
                                         const Offsets& stride, int64_t n, bool stream) {
  using C = ComputeOf<E>;
  const Lanes<C> factor = complement ? C(1) - C(param) : C(param);
  write_run<2>(
      dx, stride, n, stream,
      [&](int64_t i, int count)
          GP_INLINE_LAMBDA { return factor * load_any(dy + i * stride[0], stride[0], count, 0); },
      [&](int64_t i, auto place) GP_INLINE_LAMBDA { place.put(factor * load_lanes(dy + i)); });
}

BoundKernel bind_lerp_backward(const Problem& problem) {
  const int dy = problem.at("dy"), da = problem.at("da"), db = problem.at("db");
  const double param = problem.real("param");
  const int64_t count = count_elements(problem.shape[dy]);
  auto launch = [=](const Operand* operands, char*) {
    visit_element(operands[dy].dtype, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      const E* pdy = operands[dy].as<E>();
      E* pda = operands[da].as<E>();
      E* pdb = operands[db].as<E>();
      if (pda != nullptr && pdb != nullptr) {
        const bool stream = exceeds_caches(3 * count * int64_t(sizeof(E)));
        for_each_run({&operands[dy], &operands[da], &operands[db]},
                     [&](const Offsets& at, const Offsets& stride, int64_t n) {
                       lerp_backward_run<E>(param, pdy + at[0], pda + at[1], pdb + at[2], stride, n,
                                            stream);
                     });
      } else if (pda != nullptr || pdb != nullptr) {
        const bool complement = pda != nullptr;
        E* dx = complement ? pda : pdb;
        const bool stream = exceeds_caches(2 * count * int64_t(sizeof(E)));
        for_each_run({&operands[dy], &operands[complement ? da : db]},
                     [&](const Offsets& at, const Offsets& stride, int64_t n) {
                       scale_run<E>(param, complement, pdy + at[0], dx + at[1], stride, n, stream);
                     });
      }
    });
  };
  return {launch, 0, {da, db}};
}

const Registration lerp({.name = "binary_param",
                         .tensors = {"a", "b", "y"},
                         .attributes = {{"kind", {"lerp"}}, {"param"}},
                         .elements = kFloats,
                         .bind = bind_lerp});
const Registration backward({.name = "binary_param_backward",
                             .tensors = {"dy", "da", "db"},
                             .attributes = {{"kind", {"lerp"}}, {"param"}},
                             .elements = kFloats,
                             .bind = bind_lerp_backward});

}  // namespace
}  // namespace gradplan::pointwise
