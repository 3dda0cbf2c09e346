// A plan's contract about the tensors of a call, and the check of one call against it.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <string>
#include <vector>

#include "tensor.h"

namespace gradplan {

enum class Role { kInput, kOutput, kInOut };

struct TensorContract {
  std::string name;
  Role role;
  std::vector<Dtype> dtypes;
  Shape shape;
  Shape packed_stride;         // of a C-contiguous tensor: most calls match it
  std::vector<int> may_equal;  // positions of inputs whose memory this output may be
  bool dispensable = false;    // an output that a call may leave out
};

constexpr int kMaxTensors = 8;
using MergedStrides = std::array<int64_t, 4>;

struct CallContract {
  std::string plan;
  std::vector<TensorContract> tensors;
  int64_t workspace_size = 0;

  // Fills operands (one per tensor) or throws PlanError. A tensor that is left out is null. With
  // `strides`, which has room for those of every operand, a tensor may have more or fewer axes than
  // the plan wants if it is the same rows: [4, 8, 64] for [32, 64], or [32] for [32, 1].
  void check(const DLTensor* const* given, Operand* operands, MergedStrides* strides) const;

  // A workspace is scratch: no tensor of the call may lie in it.
  void check_workspace(const Operand* operands, const DLTensor& workspace) const;
};

Dtype dtype_from_name(const std::string& name);
const char* dtype_name(Dtype d);

}  // namespace gradplan
