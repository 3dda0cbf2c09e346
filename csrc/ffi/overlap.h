// Do two strided tensors share a byte? Exact for every layout met in practice.
#pragma once

#include <cstdint>

#include "ffi/tensor.h"

namespace gradplan::ffi {

// May the bytes of `a` and `b` overlap? False is certain; true is certain too unless the layout is
// so tangled that the search was cut off.
bool may_overlap(const Operand& a, const Operand& b);

// Does the tensor address some element twice (stride 0, or dimensions that fold onto each other)?
// True where this cannot be excluded.
bool may_overlap_itself(const Operand& a);

// The same elements at the same addresses.
bool same_memory(const Operand& a, const Operand& b);

}  // namespace gradplan::ffi
