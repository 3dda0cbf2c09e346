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
struct GP_SHARED Problem {
  std::string plan;                        // "ScanPlan": for messages
  std::map<std::string, int> slot;         // tensor name -> position among the operands
  std::vector<Shape> shape;                // by position
  std::vector<std::vector<Dtype>> dtypes;  // allowed, by position
  std::map<std::string, AttributeValue> attributes;

  int at(const std::string& tensor) const;        // -1: the plan has no such tensor
  Dtype element() const { return dtypes[0][0]; }  // the first tensor has the op's element type
  bool has(const std::string& attribute) const;
  int64_t integer(const std::string& attribute) const;
  bool flag(const std::string& attribute) const { return integer(attribute) != 0; }
  double real(const std::string& attribute) const;
  const std::string& text(const std::string& attribute) const;
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
  BoundKernel (*bind)(const Problem&);
};

using Kernels = std::vector<KernelDefinition>;

// A kernel file has one of these per kernel, at namespace scope; nobody lists them. Every library
// has a list of its own (per_isa/library.cc).
struct Registration {
  explicit Registration(const KernelDefinition& kernel);
};

}  // namespace gradplan::ffi
