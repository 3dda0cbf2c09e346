// What a library of kernels hands to the one that all of them share. These are tvm_ffi's raw
// calls, so that no kernel library is compiled against its C++ headers.
#pragma once

#include <tvm/ffi/c_api.h>

#include "ffi/kernel.h"

namespace gradplan::ffi {

// (kernel, plan, operands, attributes, long) -> {"run", "discarding", "merging", "foreign",
// "workspace_size"}. An operand is [name, role, element types, shape, names of the inputs that it
// may share memory with, optional]; the last one may be missing. All four functions run the kernel.
// `discarding` and `merging` are for outputs that nobody else has seen, which an interruption may
// leave unfinished; `merging` for tensors whose axes are yet to be merged, too (see CallContract).
// `foreign` is for threads that do not hold Python's lock; the others let go of it if `long`, which
// may be missing, is true.
GP_SHARED int bind(const Kernels& kernels, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);

// () -> {kernel: {"tensors": [...], "attributes": {name: [words]}, "elements": [...]}}
GP_SHARED int signatures(const Kernels& kernels, TVMFFIAny* result);

}  // namespace gradplan::ffi
