// Elementwise work over operands of one shape and any strides, cut into runs.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "ffi/tensor.h"
#include "memory/dimensions.h"

namespace gradplan::memory {

using RunFunction = void (*)(void* context, const Offsets& at, const Offsets& stride, int64_t n);
GP_SHARED void for_each_run(std::initializer_list<const ffi::Operand*> operands, RunFunction f,
                            void* context);

// Calls f(offset, stride, length) for runs that cover the operands, on all threads: `length`
// elements from `offset` (one per operand), `stride` apart. Where a run is not contiguous in every
// operand it belongs to a tile of two dimensions, so that a transposed operand is read by the line.
// The last operand is an output. f may use streaming stores.
template <class F>
void for_each_run(std::initializer_list<const ffi::Operand*> operands, F&& f) {
  for_each_run(
      operands,
      [](void* context, const Offsets& at, const Offsets& stride, int64_t n) {
        (*static_cast<std::remove_reference_t<F>*>(context))(at, stride, n);
      },
      &f);
}

}  // namespace gradplan::memory
