// The dimensions of a problem in the order that suits the memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ffi/error.h"

namespace gradplan::memory {

constexpr int kMostOperands = 7;
using Offsets = std::array<int64_t, kMostOperands>;  // elements; those of absent operands are 0

// Dimensions that several operands share, without those of extent 1. The order in which a kernel
// visits them is free.
struct Dimensions {
  std::vector<int64_t> extent;
  std::vector<Offsets> stride;

  void add(int64_t size, const Offsets& strides) {
    if (size == 1) return;
    extent.push_back(size);
    stride.push_back(strides);
  }

  // Orders them from the largest stride of the operand `output` to the smallest and merges
  // neighbours where memory allows.
  GP_SHARED void arrange(int output);

  int64_t count() const {
    int64_t n = 1;
    for (int64_t e : extent) n *= e;
    return n;
  }

  // Where the index-th position is, for every operand.
  Offsets offsets(int64_t index) const {
    Offsets at{};
    for (int d = int(extent.size()) - 1; d >= 0; --d) {
      const int64_t i = index % extent[d];
      index /= extent[d];
      for (int k = 0; k < kMostOperands; ++k) at[k] += i * stride[d][k];
    }
    return at;
  }
};

}  // namespace gradplan::memory
