// Arrays moved to a GPU and back, by the driver alone: for those who verify what kernels compute
// (certify) and need no framework for it.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/tvm_ffi.h>

#include "cuda/device.h"
#include "ffi/call.h"

namespace gradplan::cuda {
namespace {

using tvm::ffi::Array;
using tvm::ffi::String;
using tvm::ffi::Tensor;

constexpr int64_t kAlignment = 256;  // of what the driver allocates

struct Memory {
  Device& device;
  int64_t origin;  // of element 0, from the first byte

  void AllocData(DLTensor* t) { t->data = reinterpret_cast<void*>(base + uint64_t(origin)); }
  void FreeData(DLTensor*) {  // perhaps when the process ends, and the driver has ended before
    const Driver& driver = device.driver;
    if (driver.cuCtxPushCurrent(device.context) != 0) return;
    driver.cuMemFree(base);
    Context before;
    driver.cuCtxPopCurrent(&before);
  }

  DevicePointer base = 0;
};

// A copy of `size` bytes from the host's `address` on, as a tensor whose element 0 is `origin`
// bytes behind; addresses stay the same modulo 256, so that the copy is aligned as the original.
Tensor upload(const String& library, int64_t device_id, int64_t address, int64_t size,
              int64_t origin, const Array<int64_t>& shape, const Array<int64_t>& strides,
              DLDataType dtype) {
  return ffi::translate_errors([&] {
    Device& device = Device::at(library, int(device_id));
    const Current current(device.driver, device.context);
    const int64_t shift = address % kAlignment;
    Memory memory{device, shift + origin};
    GRADPLAN_CUDA_CHECK(device.driver, cuMemAlloc, &memory.base, size_t(shift + size + kAlignment));
    const DLDevice on{kDLCUDA, int32_t(device_id)};
    const tvm::ffi::Shape extents(shape.begin(), shape.end()),
        steps(strides.begin(), strides.end());
    const Tensor made = shape.empty()
                            ? Tensor::FromNDAlloc(memory, extents, dtype, on)
                            : Tensor::FromNDAllocStrided(memory, extents, steps, dtype, on);
    if (size > 0)
      GRADPLAN_CUDA_CHECK(device.driver, cuMemcpyHtoD, memory.base + uint64_t(shift),
                          reinterpret_cast<const void*>(address), size_t(size));
    return made;
  });
}

// The same bytes back.
void download(const String& library, const Tensor& tensor, int64_t origin, int64_t address,
              int64_t size) {
  ffi::translate_errors([&] {
    if (size == 0) return;
    Device& device = Device::at(library, tensor.device().device_id);
    const Current current(device.driver, device.context);
    const auto data = reinterpret_cast<DevicePointer>(tensor.data_ptr());
    GRADPLAN_CUDA_CHECK(device.driver, cuMemcpyDtoH, reinterpret_cast<void*>(address),
                        data - uint64_t(origin), size_t(size));
  });
}

}  // namespace
}  // namespace gradplan::cuda

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cuda_upload, gradplan::cuda::upload);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cuda_download, gradplan::cuda::download);
