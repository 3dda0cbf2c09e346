// The tensors of a call as kernels see them: already checked against the plan's contract.
#pragma once

#include <cstdint>
#include <vector>

namespace gradplan::ffi {

enum class Dtype { kF16, kBF16, kF32, kF64, kI32, kI64 };

constexpr int item_size(Dtype d) {
  return d == Dtype::kF64 || d == Dtype::kI64 ? 8 : d == Dtype::kF32 || d == Dtype::kI32 ? 4 : 2;
}

using Shape = std::vector<int64_t>;

inline int64_t count_elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// Strides count elements and may be negative or zero. A tensor that was left out has no data.
struct Operand {
  void* data;
  Dtype dtype;
  int rank;
  const int64_t* shape;
  const int64_t* stride;

  template <class E>
  E* as() const {
    return static_cast<E*>(data);
  }
};

}  // namespace gradplan::ffi
