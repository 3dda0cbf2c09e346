// Sweeps: how every scan visits its tensors.
//
// Sixteen lanes advance together along the scan axis, a square at a time. A lane is a whole row,
// or, where rows are few and long, a piece of one: then a first sweep summarises every piece, the
// summaries are chained along each row, and a second sweep writes. Which of the two is a matter of
// shape and speed only: both evaluate the expression of the contract.
#pragma once

#include <array>

#include "parallel.h"
#include "square.h"
#include "tensor.h"

namespace gradplan {

constexpr int64_t kGroup = 16, kBlock = 256, kChunk = 4096;

// The memory of K operands of one shape, seen as rows along an axis.
template <class E, int K>
struct Geometry {
  int64_t rows = 1, n = 1;
  E* base[K];       // position 0 of the scan in row 0
  int64_t step[K];  // elements from one position to the next
  Dimensions<K> outer;

  Geometry() = default;
  // `reverse`: position 0 is the end of the axis.
  Geometry(const std::array<const Operand*, K>& operands, int axis, bool reverse) {
    const Operand& first = *operands[0];
    for (int k = 0; k < K; ++k) {
      base[k] = operands[k]->template as<E>();
      step[k] = 0;
    }
    for (int d = 0; d < first.rank; ++d) {
      std::array<int64_t, K> strides;
      for (int k = 0; k < K; ++k) strides[k] = operands[k]->stride[d];
      if (d != axis) {
        outer.add(first.shape[d], strides);
        rows *= first.shape[d];
        continue;
      }
      n = first.shape[d];
      for (int k = 0; k < K; ++k) step[k] = strides[k];
    }
    if (reverse && rows * n > 0) {  // empty tensors may have no address
      for (int k = 0; k < K; ++k) {
        base[k] += step[k] * (n - 1);
        step[k] = -step[k];
      }
    }
    if (n == 1)
      for (int k = 0; k < K; ++k) step[k] = 1;
    outer.arrange();
  }

  // Some of the operands alone: Count of them from First on.
  template <int Count, int First = 0>
  Geometry<E, Count> only() const {
    Geometry<E, Count> r;
    r.rows = rows;
    r.n = n;
    std::copy_n(base + First, Count, r.base);
    std::copy_n(step + First, Count, r.step);
    r.outer.extent = outer.extent;
    for (const auto& strides : outer.stride) {
      r.outer.stride.emplace_back();
      std::copy_n(strides.begin() + First, Count, r.outer.stride.back().begin());
    }
    return r;
  }

  std::array<int64_t, K> row_offsets(int64_t row) const {
    if (outer.extent.size() > 1) return outer.offsets(row);
    std::array<int64_t, K> at{};
    if (!outer.extent.empty())
      for (int k = 0; k < K; ++k) at[k] = row * outer.stride[0][k];
    return at;
  }

  int64_t bytes() const { return rows * n * int64_t(sizeof(E)); }
};

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

// Lane groups that walk side by side where lanes are neighbours in memory: each step then reads and
// writes up to a page in a row (4 KiB of f32), which the prefetchers and the TLB like: 64 groups
// are nearly twice as fast as 16 on 4096 x 4096 along axis 0.
constexpr int kStrip = 64;

// Runs `kernel` over the lanes of a range. A kernel has
//   kInputs, kOutputs (0 or 1), Element, State
//   begin(State&, views, range, lane, lanes)    before a group's first step
//   square(State&, squares, step, count, length)  `count` steps; squares: inputs, then the output
//   next_block(State&, chunk_ended)             between blocks
//   end(State&, range, lane, lanes)             after the last step
//   ahead(k)  is input k read one position ahead? Its last position is then the kernel's to fill
//   in.
//
// kBackwards walks every lane from its last position to its first.
enum class Walk { kForwards, kBackwards };

template <class Kernel, int K>
void sweep(const Kernel& kernel, const Geometry<typename Kernel::Element, K>& geometry,
           const LaneRange& range, Walk walk = Walk::kForwards) {
  using E = typename Kernel::Element;
  using C = ComputeOf<E>;
  constexpr int kIn = Kernel::kInputs, kOut = Kernel::kOutputs;
  static_assert(kIn + kOut == K);
  const int64_t lanes = range.lanes();
  const int64_t groups = (lanes + kLanes - 1) / kLanes;
  if (groups == 0 || range.length == 0) return;
  const bool large = kOut > 0 && geometry.bytes() >= kStreamBytes;
  const bool columns =
      geometry.outer.extent.empty() ? false : geometry.outer.stride.back()[K - 1] == 1;
  const int64_t share = (groups + 2 * num_threads() - 1) / (2 * num_threads());
  const int strip = columns ? int(std::min<int64_t>(kStrip, share)) : 1;
  const int64_t strips = (groups + strip - 1) / strip;
  const int64_t strip_bytes = strip * kLanes * range.length * int64_t(sizeof(E)) * K;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / strip_bytes);

  parallel_for(strips, grain, strip_bytes * strips, [&](int64_t begin, int64_t end) {
    typename Kernel::State states[kStrip];
    LaneView<E> views[kStrip][K];
    Square<C> squares[K];
    LineWriter<E> writer;
    for (int64_t s = begin; s < end; ++s) {
      const int64_t first_group = s * strip;
      const int count = int(std::min<int64_t>(strip, groups - first_group));
      bool streams_rows = false;
      for (int g = 0; g < count; ++g) {
        const int64_t first_lane = (first_group + g) * kLanes;
        const int used = int(std::min<int64_t>(kLanes, lanes - first_lane));
        for (int l = 0; l < used; ++l) {
          const int64_t lane = first_lane + l;
          const int64_t position = (range.first_piece + lane / range.rows) * range.piece +
                                   (walk == Walk::kBackwards ? range.length - 1 : 0);
          const auto offsets = geometry.row_offsets(lane % range.rows);
          for (int k = 0; k < K; ++k)
            views[g][k].lane[l] = geometry.base[k] + offsets[k] + position * geometry.step[k];
        }
        for (int k = 0; k < K; ++k) {
          views[g][k].step = walk == Walk::kBackwards ? -geometry.step[k] : geometry.step[k];
          views[g][k].lanes = used;
          views[g][k].settle(k >= kIn && large);
        }
        if constexpr (kOut > 0) {
          // Rows are streamed one group at a time (columns need no writer).
          const LaneView<E>& out = views[g][kIn];
          if (out.stream && out.access == Access::kRows) {
            streams_rows = strip == 1;
            views[g][kIn].stream = streams_rows;
            if (streams_rows) writer.start(out.lane, out.step < 0);
          }
        }
        kernel.begin(states[g], views[g], range, first_lane, used);
      }
      for (int64_t step = 0; step < range.length; step += kGroup) {
        const int steps = int(std::min<int64_t>(kGroup, range.length - step));
        for (int g = 0; g < count; ++g) {
          if (step % kBlock == 0 && step > 0) kernel.next_block(states[g], step % kChunk == 0);
          const bool last = step + steps == range.length;
          for (int k = 0; k < kIn; ++k) {
            const bool ahead = Kernel::ahead(k);
            load_square(views[g][k], step + ahead, steps - (ahead && last), squares[k], C(1));
          }
          kernel.square(states[g], squares, step, steps, range.length);
          if constexpr (kOut > 0) store_square(views[g][kIn], step, steps, squares[kIn], writer);
        }
      }
      if (streams_rows) writer.finish();
      for (int g = 0; g < count; ++g) {
        const int64_t first_lane = (first_group + g) * kLanes;
        kernel.end(states[g], range, first_lane,
                   int(std::min<int64_t>(kLanes, lanes - first_lane)));
      }
    }
    if (large) stream_fence();
  });
}

}  // namespace gradplan
