// What a plain scan needs of its operation, as functions: the loops around them are compiled once
// per element type, not once more for every operation.
#pragma once

#include "lanes/elements.h"
#include "memory/geometry.h"
#include "scan/square.h"

namespace gradplan::scan {

// What comes into a batch of blocks, and goes out of it.
template <class C>
struct BatchCarry {
  C c2, c3;             // the identity, at the start of a row
  int block = 0;        // of the chunk
  int groups = kLanes;  // of a row, where a block holds several: nothing is carried then
};

// Blocks that are worked on together: the chains of their sixteen totals overlap, each of them
// being all latency. Forwards four of them, or eight of half the size (f16: 0.93 of the time): more
// leave the first-level cache. Backwards a chunk, so
// that memory is still read and written upwards, which is what the hardware prefetches; what comes
// next, lower down, is fetched meanwhile (0.45 -> 0.31 ns an element of f32).
constexpr int kMostBlocks = 16;
template <class E>
constexpr int64_t batch_size(bool reverse) {
  return (reverse ? kMostBlocks : sizeof(E) == 2 ? 8 : 4) * kBlock;
}

template <class C>
struct BatchBlocks {
  Square<C> local[kMostBlocks];  // [place in the group][lane], and blocks, all as in memory
  alignas(64) C c1[kMostBlocks][kLanes];
  C c2[kMostBlocks];  // c3 is that of the carry: a batch lies in one chunk
  int count;
};

template <class C>
using NativeMask = Native<IntOf<C>>;

// In pairs the second is hasty: right where no NaN comes up.
template <class E>
struct RowOperation {
  using C = ComputeOf<E>;
  // The scans inside of the 16 groups of `count` blocks. Sets bits of `met_nan` where a NaN would
  // get lost.
  void (*scan_groups[2])(const E* x, int count, Square<C>* local, NativeMask<C>& met_nan);
  // Finds c1 and c2 of every block, and the next carry. The hasty one returns false where a NaN may
  // come up.
  bool (*chain[2])(BatchBlocks<C>& blocks, BatchCarry<C>& carry);
};

template <class E>
struct ColumnStrip;

template <class E>
struct PrefixOperation {
  using C = ComputeOf<E>;
  C identity;
  C (*apply)(C, C);
  RowOperation<E> rows[2];  // [reverse]
  // y = c3 o (c2 o (c1 o local)) of `count` blocks from `first` on, one behind the other; the
  // careful one has a c3, as has the third.
  void (*emit[3])(const BatchBlocks<C>& blocks, int first, int count, C c3, E* y);
  // The next rows of columns, one or two of them, and two [with c3][where a group begins].
  using Columns = bool (*)(ColumnStrip<E>& strip, const E* x, int64_t step, int64_t ahead);
  Columns careful_columns[2], hasty_columns[2][2];
  void (*add)(C* carry, const C* more, int64_t count);  // by 16 of them
  void (*sweep)(const RowTensors& tensors, char* workspace);
};

template <class Op, class E>
PrefixOperation<E> prefix_operation();

}  // namespace gradplan::scan
