// The contract's reduction of a row: 16 serial chains, one per position modulo 16, each from the
// operation's identity, then a halving tree. Op is one of lanes/operations.h.
#pragma once

#include "lanes/operations.h"
#include "memory/access.h"

namespace gradplan::softmax {
using namespace lanes;
using namespace memory;

// V is one number per chain (a line), or 16 (a strip of lines).
template <class Op, class V>
GP_INLINE V halving_tree(V (&chains)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) chains[l] = Op::apply(chains[l], chains[l + half]);
  return chains[0];
}

// The reduction of n elements: part(i, count) gives those from i on in lanes, the identity behind
// the count-th; whole(i) gives 16.
template <class Op, class C, class Part, class Whole>
GP_INLINE C reduce_row(int64_t n, Part&& part, Whole&& whole) {
  auto chains = Op::template identity<Lanes<C>>();
  in_lanes(
      n, 0,
      [&](int64_t i, int count) GP_INLINE_LAMBDA { chains = Op::apply(chains, part(i, count)); },
      [&](int64_t i) GP_INLINE_LAMBDA { chains = Op::apply(chains, whole(i)); });
  C of_lane[kLanes];
  chains.store(of_lane);
  return halving_tree<Op>(of_lane);
}

}  // namespace gradplan::softmax
