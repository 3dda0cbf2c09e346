#include "memory/geometry.h"

namespace gradplan::memory {

Layout::Layout(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse)
    : operands(int(tensors.size())) {
  const ffi::Operand& first = **tensors.begin();
  for (int d = 0; d < first.rank; ++d) {
    Offsets strides{};
    for (int k = 0; k < operands; ++k) strides[k] = tensors.begin()[k]->stride[d];
    if (d != axis) {
      outer.add(first.shape[d], strides);
      rows *= first.shape[d];
      continue;
    }
    n = first.shape[d];
    step = strides;
  }
  if (reverse && rows * n > 0) {  // empty tensors may have no address
    for (int k = 0; k < operands; ++k) {
      start[k] = step[k] * (n - 1);
      step[k] = -step[k];
    }
  }
  if (n == 1)
    for (int k = 0; k < operands; ++k) step[k] = 1;
  outer.arrange(operands - 1);
}

}  // namespace gradplan::memory
