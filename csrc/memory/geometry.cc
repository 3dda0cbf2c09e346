#include "memory/geometry.h"

namespace gradplan::memory {

RowTensors::RowTensors(std::initializer_list<const ffi::Operand*> tensors, int axis, bool reverse)
    : operands(int(tensors.size())), dtype((*tensors.begin())->dtype) {
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
  for (int k = 0; k < operands; ++k) data[k] = tensors.begin()[k]->data;
  if (reverse && rows * n > 0) {  // empty tensors may have no address
    for (int k = 0; k < operands; ++k) {
      data[k] =
          static_cast<char*>(data[k]) + step[k] * (n - 1) * item_size(tensors.begin()[k]->dtype);
      step[k] = -step[k];
    }
  }
  if (n == 1)
    for (int k = 0; k < operands; ++k) step[k] = 1;
  outer.arrange(operands - 1);
}

RowTensors RowTensors::only(int count, int first) const {
  RowTensors r = *this;
  r.operands = count;
  for (int k = 0; k < kMostOperands; ++k) {
    const bool has = k < count;
    r.data[k] = has ? data[first + k] : nullptr;
    r.step[k] = has ? step[first + k] : 0;
    for (size_t d = 0; d < outer.stride.size(); ++d)
      r.outer.stride[d][k] = has ? outer.stride[d][first + k] : 0;
  }
  return r;
}

}  // namespace gradplan::memory
