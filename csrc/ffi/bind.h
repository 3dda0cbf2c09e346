// What a library of kernels hands to the one that all of them share. These are tvm_ffi's raw
// calls, so that no kernel library is compiled against its C++ headers.
#pragma once

#include <tvm/ffi/c_api.h>

#include "ffi/kernel.h"

namespace gradplan::ffi {

// (kernel, plan, operands, attributes) -> [function, merging, workspace_size]. An operand is [name,
// role, element types, shape, names of the inputs that it may share memory with, optional]; the
// last one may be missing. `merging` is the same function for tensors whose axes are yet to be
// merged (see CallContract).
GP_SHARED int bind(const Kernels& kernels, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);

// () -> {kernel: {"tensors": [...], "attributes": {name: [words]}, "elements": [...]}}
GP_SHARED int signatures(const Kernels& kernels, TVMFFIAny* result);

}  // namespace gradplan::ffi
