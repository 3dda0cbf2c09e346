// A call as it comes through tvm_ffi: its arguments checked against the plan's contract. For every
// engine that is written in C++, and for those that only want the checks.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/tvm_ffi.h>

#include <memory>
#include <new>
#include <string>

#include "ffi/contract.h"

namespace gradplan::ffi {

// Errors carry no C++ backtrace: the Python one ends at the user's call, which is where to look.
template <class F>
auto translate_errors(F&& f) {
  try {
    return f();
  } catch (const PlanError& e) {
    throw tvm::ffi::Error("gradplan." + e.kind, e.what(), "");
  } catch (const std::bad_alloc&) {
    throw tvm::ffi::Error("MemoryError", "gradplan: out of memory", "");
  }
}

inline bool is_none(tvm::ffi::AnyView argument) {
  return argument.type_index() == tvm::ffi::TypeIndex::kTVMFFINone;
}

// Operands as plans describe them; see bind.h.
using Operands = tvm::ffi::Array<tvm::ffi::Array<tvm::ffi::Any>>;

std::shared_ptr<CallContract> contract_of(const std::string& plan, const Operands& operands);

// The arguments of a call, checked: all tensors and perhaps a workspace, each of which may be None
// if it can be done without.
struct Call {
  Operand operands[kMaxTensors];
  MergedStrides strides[kMaxTensors];
  char* workspace = nullptr;  // null: the caller has none
  int device_id = 0;          // where the tensors are

  // The arguments are the tensors in the plan's order, and perhaps the workspace.
  Call(const CallContract& contract, tvm::ffi::PackedArgs args, bool merging);

  // The same for a workspace that comes later: once it is known how large it has to be.
  void use_workspace(const CallContract& contract, tvm::ffi::AnyView given);
};

}  // namespace gradplan::ffi
