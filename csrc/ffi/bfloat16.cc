// NumPy does not export bfloat16: it hands over the same memory as uint16.
#include <tvm/ffi/tvm_ffi.h>

namespace gradplan::ffi {
namespace {

using tvm::ffi::Tensor;

Tensor as_bfloat16(const Tensor& words) {
  struct Borrow {
    Tensor owner;
    void AllocData(DLTensor* t) {
      t->data = const_cast<void*>(owner.data_ptr());
      t->byte_offset = owner.GetDLTensorPtr()->byte_offset;
    }
    void FreeData(DLTensor*) {}
  };
  const DLTensor* t = words.GetDLTensorPtr();
  if (t->dtype.bits != 16)
    throw tvm::ffi::Error("gradplan.KernelError", "as_bfloat16: expected 16-bit elements", "");
  const DLDataType bfloat16{kDLBfloat, 16, 1};
  if (t->ndim == 0)  // which has no strides to pass on
    return Tensor::FromNDAlloc(Borrow{words}, words.shape(), bfloat16, t->device);
  return Tensor::FromNDAllocStrided(Borrow{words}, words.shape(), words.strides(), bfloat16,
                                    t->device);
}

}  // namespace
}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_as_bfloat16, gradplan::ffi::as_bfloat16);
