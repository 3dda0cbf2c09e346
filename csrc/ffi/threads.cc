// The number of threads, and the yardstick of the benchmark.
#include "memory/threads.h"

#include <tvm/ffi/tvm_ffi.h>

#include <cstring>

#include "memory/caches.h"
#include "memory/openmp.h"
#include "memory/thread_pool.h"

namespace gradplan::ffi {
namespace {

// memcpy on all threads.
void parallel_copy(tvm::ffi::TensorView from, tvm::ffi::TensorView to) {
  const int64_t bytes = from.numel() * from.dtype().bits / 8, piece = 1 << 20;
  if (bytes != to.numel() * to.dtype().bits / 8 || !from.IsContiguous() || !to.IsContiguous())
    throw tvm::ffi::Error("gradplan.InvalidProblem",
                          "copy: expected contiguous tensors of one size", "");
  memory::parallel_for((bytes + piece - 1) / piece, 1, bytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to.data_ptr()) + begin * piece,
                static_cast<const char*>(from.data_ptr()) + begin * piece,
                std::min(end * piece, bytes) - begin * piece);
  });
}

// What the machine says about itself, for tests: as the files below `root` say it.
int64_t processors(const tvm::ffi::String& root) { return memory::processors(root); }
int64_t cache_of_thread(const tvm::ffi::String& root) { return memory::cache_of_thread(root); }

}  // namespace
}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_copy, gradplan::ffi::parallel_copy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_set_num_threads, gradplan::memory::set_num_threads);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_get_num_threads, gradplan::memory::num_threads);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_processors, gradplan::ffi::processors);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cache_of_thread, gradplan::ffi::cache_of_thread);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_set_cache_of_thread, gradplan::memory::set_cache_of_thread);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_share_openmp, gradplan::memory::share_openmp);
