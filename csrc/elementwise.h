// Elementwise work over K operands of one shape and any strides, cut into runs.
#pragma once

#include "parallel.h"
#include "tensor.h"

namespace gradplan {

inline bool is_packed(const Operand& t) {
  int64_t stride = 1;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.stride[d] != stride) return false;
    stride *= t.shape[d];
  }
  return true;
}

// Calls f(offset, stride, length) for runs that cover the K operands, on all threads: `length`
// elements from `offset` (one per operand), `stride` apart. Where a run is not contiguous in every
// operand it belongs to a tile of two dimensions, so that a transposed operand is read by the line.
// The last operand is an output. f may use streaming stores.
template <int K, class F>
void for_each_run(const std::array<const Operand*, K>& operands, F&& f) {
  using Offsets = std::array<int64_t, K>;
  constexpr int64_t kPackedRun = 1 << 14, kTile = 1 << 12, kTileSide = 64;

  Dimensions<K> dims;
  bool packed = true;
  for (const Operand* t : operands) packed = packed && is_packed(*t);
  Offsets one;
  one.fill(1);
  if (packed) {
    int64_t n = 1;
    for (int d = 0; d < operands[0]->rank; ++d) n *= operands[0]->shape[d];
    if (n <= kPackedRun) {  // small and all in one piece, as most tensors are
      parallel_for(n > 0, 1, 0, [&](int64_t, int64_t) {
        f(Offsets{}, one, n);
        stream_fence();
      });
      return;
    }
    dims.add(n, one);
  } else {
    for (int d = 0; d < operands[0]->rank; ++d) {
      Offsets stride;
      for (int k = 0; k < K; ++k) stride[k] = operands[k]->stride[d];
      dims.add(operands[0]->shape[d], stride);
    }
    dims.arrange();
  }
  const int64_t count = dims.count();
  if (count == 0) return;

  const int rank = int(dims.extent.size());
  const int64_t n = rank > 0 ? dims.extent[rank - 1] : 1;
  const int64_t rows = rank > 1 ? dims.extent[rank - 2] : 1;
  const Offsets step = rank > 0 ? dims.stride[rank - 1] : one;
  const Offsets row_step = rank > 1 ? dims.stride[rank - 2] : Offsets{};
  const bool contiguous = step == one;
  const int64_t tile_rows =
      contiguous ? std::clamp<int64_t>(kPackedRun / n, 1, rows) : std::min(rows, kTileSide);
  const int64_t tile_n = std::min(n, contiguous ? kPackedRun : kTile / tile_rows);
  const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
  const int64_t tiles = (n + tile_n - 1) / tile_n;
  const int64_t item = item_size(operands[0]->dtype);
  const int64_t tasks = count / (rows * n) * row_tiles * tiles;
  const int64_t grain = long_grain(tasks, kPackedRun / (tile_rows * tile_n));

  parallel_for(tasks, grain, count * item * K, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % tiles * tile_n;
      const int64_t row = t / tiles % row_tiles * tile_rows;
      const int64_t outer = t / (tiles * row_tiles);
      Offsets at = dims.offsets((outer * rows + row) * n + column);
      const int64_t length = std::min(tile_n, n - column);
      for (int64_t r = std::min(tile_rows, rows - row); r > 0; --r) {
        f(at, step, length);
        for (int k = 0; k < K; ++k) at[k] += row_step[k];
      }
    }
    stream_fence();
  });
}

}  // namespace gradplan
