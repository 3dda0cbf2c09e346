// A plan's contract about the tensors of a call, and the check of one call against it.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <string>
#include <vector>

#include "ffi/error.h"
#include "ffi/tensor.h"

namespace gradplan::ffi {

enum class Role { kInput, kOutput, kInOut };

struct TensorContract {
  std::string name;
  Role role;
  std::vector<Dtype> dtypes;
  Shape shape;
  Shape packed_stride;         // of a C-contiguous tensor: most calls match it
  std::vector<int> may_equal;  // positions of inputs whose memory this output may be
  bool optional = false;       // a call may leave it out
};

constexpr int kMaxTensors = 16;
constexpr size_t kWorkspaceAlignment = 64;  // on CPUs
constexpr int kAnyDevice = -1;
using MergedStrides = std::array<int64_t, 4>;

struct CallContract {
  std::string plan;
  std::vector<TensorContract> tensors;
  DLDeviceType device = kDLCPU;
  int device_id = kAnyDevice;  // of a plan for one GPU; tensors are always on the same one
  int64_t workspace_size = 0;  // with room to align it
  size_t workspace_alignment = kWorkspaceAlignment;

  // Fills operands (one per tensor) and returns the number of the device that all of them are on,
  // or throws PlanError. A tensor that is left out is null. With
  // `strides`, which has room for those of every operand, a tensor may have more or fewer axes than
  // the plan wants if it is the same rows: [4, 8, 64] for [32, 64], or [32] for [32, 1].
  int check(const DLTensor* const* given, Operand* operands, MergedStrides* strides) const;

  // The first aligned byte of the caller's workspace, or PlanError. It is scratch: no tensor of the
  // call may lie in it, and it is on their device.
  char* check_workspace(const Operand* operands, int on_device, const DLTensor& workspace) const;
};

Dtype dtype_from_name(const std::string& name);
const char* dtype_name(Dtype d);

}  // namespace gradplan::ffi
