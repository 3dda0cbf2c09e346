#include "memory/runs.h"

#include <algorithm>

#include "memory/threads.h"

namespace gradplan::memory {
namespace {

bool is_packed(const ffi::Operand& t) {
  int64_t stride = 1;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.stride[d] != stride) return false;
    stride *= t.shape[d];
  }
  return true;
}

}  // namespace

void for_each_run(std::initializer_list<const ffi::Operand*> operands, RunFunction f,
                  void* context) {
  constexpr int64_t kPackedRun = 1 << 14, kTile = 1 << 12, kTileSide = 64;

  const int count_operands = int(operands.size());
  const ffi::Operand& first = **operands.begin();
  Dimensions dims;
  bool packed = true;
  for (const ffi::Operand* t : operands) packed = packed && is_packed(*t);
  Offsets one{};
  std::fill_n(one.begin(), count_operands, 1);
  if (packed) {
    int64_t n = 1;
    for (int d = 0; d < first.rank; ++d) n *= first.shape[d];
    if (n <= kPackedRun) {  // small and all in one piece, as most tensors are
      parallel_for(n > 0, 1, 0, [&](int64_t, int64_t) {
        f(context, Offsets{}, one, n);
        stream_fence();
      });
      return;
    }
    dims.add(n, one);
  } else {
    for (int d = 0; d < first.rank; ++d) {
      Offsets stride{};
      for (int k = 0; k < count_operands; ++k) stride[k] = operands.begin()[k]->stride[d];
      dims.add(first.shape[d], stride);
    }
    dims.arrange(count_operands - 1);
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
  const int64_t item = item_size(first.dtype);
  const int64_t tasks = count / (rows * n) * row_tiles * tiles;
  const int64_t grain = long_grain(tasks, kPackedRun / (tile_rows * tile_n));

  parallel_for(tasks, grain, count * item * count_operands, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % tiles * tile_n;
      const int64_t row = t / tiles % row_tiles * tile_rows;
      const int64_t outer = t / (tiles * row_tiles);
      Offsets at = dims.offsets((outer * rows + row) * n + column);
      const int64_t length = std::min(tile_n, n - column);
      for (int64_t r = std::min(tile_rows, rows - row); r > 0; --r) {
        f(context, at, step, length);
        for (int k = 0; k < count_operands; ++k) at[k] += row_step[k];
      }
    }
    stream_fence();
  });
}

}  // namespace gradplan::memory
