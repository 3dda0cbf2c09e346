// What runs on a GPU for one layout of a plan's tensors: launches, with places where the addresses
// of a call go. engines/cuda/program.py is the same in Python, where it is made.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/tvm_ffi.h>

#include <vector>

#include "cuda/device.h"
#include "ffi/tensor.h"

namespace gradplan::cuda {

class Program {
 public:
  using Described = tvm::ffi::Array<tvm::ffi::Any>;

  // [bytes of workspace, the name of its report or None, launches]; a launch is [kernel, grid,
  // places, values], a kernel [key, entry, PTX, parameters, threads, bytes of shared memory]. The
  // place of an argument is the position of a tensor, or one of those below; its value is an offset
  // in bytes, or the bits of a number. Kernels are loaded here.
  Program(Device& device, const Described& described, const Report::Explain& explain);

  const int64_t workspace_size;

  // Puts all launches on a stream; the device's context must be current.
  void launch(const ffi::Operand* operands, char* workspace, Stream stream) const;

 private:
  enum Place : int64_t { kWorkspace = -1, kReport = -2, kNumber = -3 };
  struct Argument {
    int64_t place;
    uint64_t value;
  };
  struct Launch {
    std::string key;
    Entry entry;
    unsigned grid[3];
    unsigned threads, shared;
    std::vector<Argument> arguments;
  };

  uint64_t resolve(const Argument& argument, const ffi::Operand* operands, char* workspace) const;

  const Driver& driver_;
  const Report* report_ = nullptr;
  std::vector<Launch> launches_;
};

}  // namespace gradplan::cuda
