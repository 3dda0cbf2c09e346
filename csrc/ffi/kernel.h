// What a kernel is: the problem that it is bound to, and how it makes itself known.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ffi/error.h"
#include "ffi/tensor.h"

namespace gradplan::ffi {

using AttributeValue = std::variant<int64_t, double, std::string>;

// What a plan promises about every call, known when it is selected.
struct Problem {
  std::string plan;                        // "ScanPlan": for messages
  std::map<std::string, int> slot;         // tensor name -> position among the operands
  std::vector<Shape> shape;                // by position
  std::vector<std::vector<Dtype>> dtypes;  // allowed, by position
  std::map<std::string, AttributeValue> attributes;

  int at(const std::string& tensor) const {
    auto it = slot.find(tensor);
    return it == slot.end() ? -1 : it->second;
  }
  Dtype element() const { return dtypes[0][0]; }  // the first tensor has the op's element type
  int64_t integer(const std::string& key) const { return std::get<int64_t>(attributes.at(key)); }
  bool flag(const std::string& key) const { return integer(key) != 0; }
  double real(const std::string& key) const {
    const AttributeValue& a = attributes.at(key);
    return std::holds_alternative<double>(a) ? std::get<double>(a) : double(std::get<int64_t>(a));
  }
  const std::string& text(const std::string& key) const {
    return std::get<std::string>(attributes.at(key));
  }
};

// One call: operands in the plan's order; workspace is 64-byte aligned and at least workspace_size.
using Launch = std::function<void(const Operand* operands, char* workspace)>;

struct BoundKernel {
  Launch launch;
  int64_t workspace_size = 0;
  std::vector<int> dispensable = {};  // outputs that a call may leave out: their data is null
};

// An attribute that a kernel reads and, if it is a word, the words that it implements: a plan with
// another one is refused before the kernel sees it.
struct Attribute {
  std::string name;
  std::vector<std::string> words = {};
};

inline const std::vector<Dtype> kFloats = {Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64};

struct KernelDefinition {
  std::string name;
  std::vector<std::string> tensors;  // every name that a plan may have, in order
  std::vector<Attribute> attributes;
  std::vector<Dtype> elements;  // the op's element types that it implements
  std::function<BoundKernel(const Problem&)> bind;
};

using Kernels = std::vector<KernelDefinition>;

// All kernels of the library that this is compiled into: symbols are hidden, so each has its own.
inline Kernels& registered() {
  static auto* all = new Kernels;
  return *all;
}

// A kernel file has one of these per kernel, at namespace scope; nobody lists them.
struct Registration {
  explicit Registration(KernelDefinition kernel) { registered().push_back(std::move(kernel)); }
};

}  // namespace gradplan::ffi
