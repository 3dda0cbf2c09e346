// Sweeps: how every scan visits its tensors, unless there is a faster way.
//
// Sixteen lanes advance together along the scan axis, a square at a time. A lane is a whole row,
// or, where rows are few and long, a piece of one: then a first sweep summarises every piece, the
// summaries are chained along each row, and a second sweep writes. Which of the two is a matter of
// shape and speed only: both evaluate the expression of the contract.
//
// What is done to a square is behind virtual functions, one call per 256 elements, and squares are
// in the compute type: so a sweep is compiled once per element type, a kernel once per compute
// type.
#pragma once

#include "lanes/elements.h"
#include "memory/geometry.h"
#include "scan/square.h"

namespace gradplan::scan {

// Lanes of one length. Lane i is piece first_piece + i / rows of row i % rows, so that lanes which
// are neighbours in memory stay neighbours.
struct LaneRange {
  int64_t rows;
  int64_t first_piece, pieces;
  int64_t piece;   // positions from one piece to the next
  int64_t length;  // positions of each lane
  int64_t lanes() const { return rows * pieces; }
  int64_t id(int64_t lane) const { return first_piece * rows + lane; }
};

// How a problem is cut. With pieces of n there is one lane per row and no chain.
struct Cut {
  int64_t rows, n, piece;

  // Rows enough for every core's lanes are not cut. The shape alone decides, so the workspace does
  // not depend on the number of threads.
  static Cut of(int64_t rows, int64_t n) {
    if (n <= 2 * kBlock || rows >= 512) return {rows, n, std::max<int64_t>(n, 1)};
    return {rows, n, rows * n >= 32 * kGroup * kChunk ? kChunk : kBlock};
  }
  bool empty() const { return rows == 0 || n == 0; }
  bool whole() const { return piece >= n; }
  int64_t full() const { return n / piece; }
  int64_t tail() const { return n % piece; }
  int64_t pieces() const { return full() + (tail() > 0); }
  int64_t ids() const { return rows * pieces(); }

  // Calls f(range) for the lanes of pieces [from, to): the full ones, then the shorter last ones.
  template <class F>
  void ranges(int64_t from, int64_t to, F&& f) const {
    const int64_t full_end = std::min(to, full());
    if (full_end > from) f(LaneRange{rows, from, full_end - from, piece, piece});
    if (to > full() && tail() > 0) f(LaneRange{rows, full(), 1, piece, tail()});
  }
};

// Single elements of a group's inputs, beside the squares: a group looks at a few when it begins.
template <class C>
struct LaneInputs {
  // Element `step` of the lanes that `wanted` has a bit for, from one input; other lanes are kept.
  virtual void read(int input, int64_t step, unsigned wanted, C (&lanes)[kLanes]) const = 0;

 protected:
  ~LaneInputs() = default;
};

constexpr int kMostOutputs = 2;
constexpr int kMostSquares = 5;  // inputs and outputs together

// What a sweep does.
template <class C>
struct SweepKernel {
  int inputs;
  int outputs;         // at most kMostOutputs
  int ahead;           // an input whose squares are read one step ahead of the others, or -1
  int64_t state_size;  // of a group of lanes

  SweepKernel(int inputs, int outputs, int ahead, int64_t state_size)
      : inputs(inputs), outputs(outputs), ahead(ahead), state_size(state_size) {}

  // Before a group's first step.
  virtual void begin(void* state, const LaneInputs<C>& inputs, const LaneRange& range, int64_t lane,
                     int lanes) const = 0;
  // `count` steps; squares: inputs, then outputs.
  virtual void square(void* state, Square<C>* squares, int64_t step, int count,
                      int64_t length) const = 0;
  // Between blocks.
  virtual void next_block(void*, bool /* chunk_ended */) const {}
  virtual void end(void*, const LaneRange&, int64_t /* lane */, int /* lanes */) const {}

 protected:
  ~SweepKernel() = default;
};

constexpr int64_t kMostStateBytes = 2048;

// A kernel with a state of the type S.
template <class C, class S>
struct SweepKernelOf : SweepKernel<C> {
  static_assert(sizeof(S) <= kMostStateBytes && std::is_trivially_destructible_v<S>);
  SweepKernelOf(int inputs, int outputs, int ahead = -1)
      : SweepKernel<C>(inputs, outputs, ahead, (int64_t(sizeof(S)) + 63) / 64 * 64) {}

  static S& of(void* state) { return *static_cast<S*>(state); }
};

enum class Walk { kForwards, kBackwards };  // of the lanes' steps

// Runs `kernel` over the lanes of a range: the tensors are its inputs, then its outputs, and have
// an element type that computes in C.
template <class C>
void sweep(const SweepKernel<C>& kernel, const RowTensors& tensors, const LaneRange& range,
           Walk walk = Walk::kForwards);

}  // namespace gradplan::scan
