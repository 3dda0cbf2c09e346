// What a kernel sees: operands (already checked against the plan's contract), attributes,
// workspace, and the helpers that turn an n-dimensional problem into rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "dtype.h"

namespace gradplan {

enum class Dtype { kF16, kBF16, kF32, kF64, kI32, kI64 };

constexpr int item_size(Dtype d) {
  return d == Dtype::kF64 || d == Dtype::kI64 ? 8 : d == Dtype::kF32 || d == Dtype::kI32 ? 4 : 2;
}

using Shape = std::vector<int64_t>;

// A tensor of one call. Strides count elements and may be negative or zero.
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

using Attribute = std::variant<int64_t, double, std::string>;

// What a plan promises about every call, known when it is selected.
struct Problem {
  std::string plan;                        // "ScanPlan": for messages
  std::map<std::string, int> slot;         // tensor name -> position among the operands
  std::vector<std::string> name;           // position -> tensor name
  std::vector<Shape> shape;                // by position
  std::vector<std::vector<Dtype>> dtypes;  // allowed, by position
  std::map<std::string, Attribute> attributes;

  int at(const std::string& tensor) const {
    auto it = slot.find(tensor);
    return it == slot.end() ? -1 : it->second;
  }
  int64_t integer(const std::string& key) const { return std::get<int64_t>(attributes.at(key)); }
  bool flag(const std::string& key) const { return integer(key) != 0; }
  double real(const std::string& key) const {
    const Attribute& a = attributes.at(key);
    return std::holds_alternative<double>(a) ? std::get<double>(a) : double(std::get<int64_t>(a));
  }
  const std::string& text(const std::string& key) const {
    return std::get<std::string>(attributes.at(key));
  }
};

// A user's mistake: `kind` is the name of the Python error class.
struct PlanError : std::runtime_error {
  PlanError(std::string kind, const std::string& message)
      : std::runtime_error(message), kind(std::move(kind)) {}
  std::string kind;
};

// One call: operands in the plan's order; workspace is 64-byte aligned and at least workspace_size.
using Launch = std::function<void(const Operand* operands, char* workspace)>;

struct BoundKernel {
  Launch launch;
  int64_t workspace_size = 0;
  std::vector<int> dispensable = {};  // outputs that a call may leave out: their data is null
};

struct KernelDefinition {
  std::string name;
  std::vector<std::string> tensors;     // every name that a plan may have, in order
  std::vector<std::string> attributes;  // every attribute that it reads
  std::function<BoundKernel(const Problem&)> bind;
};

// Each kernel file defines one of these; export.cc lists them.
std::vector<KernelDefinition> scan_kernels();
std::vector<KernelDefinition> segment_kernels();
std::vector<KernelDefinition> embedding_kernels();
std::vector<KernelDefinition> lerp_kernels();
std::vector<KernelDefinition> sparsemax_kernels();

// Calls f with a null pointer of the element type.
template <class F>
decltype(auto) visit_element(Dtype d, F&& f) {
  switch (d) {
    case Dtype::kF16: return f(static_cast<F16*>(nullptr));
    case Dtype::kBF16: return f(static_cast<BF16*>(nullptr));
    case Dtype::kF32: return f(static_cast<float*>(nullptr));
    case Dtype::kF64: return f(static_cast<double*>(nullptr));
    default: throw PlanError("KernelError", "not a floating-point element type");
  }
}

template <class F>
decltype(auto) visit_index(Dtype d, F&& f) {
  if (d == Dtype::kI32) return f(static_cast<int32_t*>(nullptr));
  if (d == Dtype::kI64) return f(static_cast<int64_t*>(nullptr));
  throw PlanError("KernelError", "not an index type");
}

inline int64_t count_elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// Outputs larger than this are written with streaming stores: they would not stay in the cache
// anyway, and a normal store reads every line first.
constexpr int64_t kStreamBytes = 8 << 20;

// Dimensions shared by K operands, without those of extent 1, ordered from the largest stride of
// the last operand (the output) to the smallest, neighbours merged where memory allows. The order
// in which a kernel visits them is free, so this is the order that suits the memory.
template <int K>
struct Dimensions {
  std::vector<int64_t> extent;
  std::vector<std::array<int64_t, K>> stride;

  void add(int64_t size, const std::array<int64_t, K>& strides) {
    if (size == 1) return;
    extent.push_back(size);
    stride.push_back(strides);
  }

  void arrange() {
    const int rank = int(extent.size());
    std::vector<int> order(rank);
    for (int i = 0; i < rank; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::abs(stride[a][K - 1]) > std::abs(stride[b][K - 1]);
    });
    Dimensions merged;
    for (int i : order) {
      bool joins = !merged.extent.empty();
      for (int k = 0; joins && k < K; ++k)
        joins = merged.stride.back()[k] == stride[i][k] * extent[i];
      if (joins) {
        merged.extent.back() *= extent[i];
        merged.stride.back() = stride[i];
      } else {
        merged.extent.push_back(extent[i]);
        merged.stride.push_back(stride[i]);
      }
    }
    *this = std::move(merged);
  }

  int64_t count() const {
    int64_t n = 1;
    for (int64_t e : extent) n *= e;
    return n;
  }

  // Element offsets of the index-th position, for every operand.
  std::array<int64_t, K> offsets(int64_t index) const {
    std::array<int64_t, K> at{};
    for (int d = int(extent.size()) - 1; d >= 0; --d) {
      const int64_t i = index % extent[d];
      index /= extent[d];
      for (int k = 0; k < K; ++k) at[k] += i * stride[d][k];
    }
    return at;
  }
};

}  // namespace gradplan
