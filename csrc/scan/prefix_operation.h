// What a plain scan needs of its operation, as functions: the loops around them are compiled once
// per element type, not once more for every operation.
#pragma once

#include "lanes/elements.h"
#include "memory/geometry.h"
#include "scan/row_values.h"
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

// What is left to do for a block once its carries are known.
enum class Ending : uint8_t {
  kHasty,    // arithmetic without care: no NaN can come up
  kCareful,  // arithmetic of the contract, and NaN made canonical
  kSigns,    // c2 or c3 is zero or infinite, and so is every result: only signs are computed
  kNan,      // c2 or c3 is NaN, and so is every result
};

template <class C>
struct BatchBlocks {
  Square<C> local[kMostBlocks];  // [place in the group][lane], and blocks, all as in memory
  alignas(64) C c1[kMostBlocks][kLanes];
  C c2[kMostBlocks];  // c3 is that of the carry: a batch lies in one chunk
  Ending ending[kMostBlocks];
  uint32_t careful;  // a bit for every block whose local results were found carefully
  int count;
};

template <class C>
using NativeMask = Native<IntOf<C>>;

template <class E>
struct RowOperation {
  using C = ComputeOf<E>;
  // The scans inside of the 16 groups of `count` blocks, carefully or (the second) hastily, which
  // is right where no NaN comes up. Returns a bit for every block where one got lost.
  uint32_t (*scan_groups[2])(const E* x, int count, Square<C>* local);
  // Finds c1, c2 and the ending of every block, and the next carry. Returns a bit for every block
  // where hasty scans have met a NaN: then what was found is worth nothing.
  uint32_t (*chain)(BatchBlocks<C>& blocks, BatchCarry<C>& carry);
};

template <class E>
struct ColumnStrip;

template <class E>
struct PrefixOperation {
  using C = ComputeOf<E>;
  C identity;
  C (*apply)(C, C);
  RowOperation<E> rows[2];  // [reverse]
  // y = c3 o (c2 o (c1 o local)) of `count` blocks from `first` on, one behind the other, all with
  // the same ending.
  using Emit = void (*)(const BatchBlocks<C>& blocks, int first, int count, C c3, E* y);
  Emit emit_hastily[2];  // [with c3]
  Emit emit_carefully;
  Emit emit_signs;  // null where no carry leaves only signs to compute
  // The next rows of columns, one or two of them, and two [with c3][where a group begins].
  using Columns = bool (*)(ColumnStrip<E>& strip, const E* x, int64_t step, int64_t ahead);
  Columns careful_columns[2], hasty_columns[2][2];
  void (*add)(C* carry, const C* more, int64_t count);  // by 16 of them
  // `carry` has c3 of rows that something comes into.
  void (*sweep)(const RowTensors& tensors, char* workspace, const RowValues& carry);
  // What each row adds to c3; `totals` has room for every row.
  void (*total)(const RowTensors& tensors, C* totals);
};

template <class Op, class E>
PrefixOperation<E> prefix_operation();

}  // namespace gradplan::scan
