// Which of our builds can this CPU run?
#include <tvm/ffi/tvm_ffi.h>

namespace gradplan::ffi {
namespace {

bool cpu_supports(const tvm::ffi::String& isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (isa == "x86-64-v2") return __builtin_cpu_supports("x86-64-v2") != 0;
  if (isa == "x86-64-v3") return __builtin_cpu_supports("x86-64-v3") != 0;
  if (isa == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4") != 0;
#elif defined(__aarch64__)
  if (isa == "aarch64") return true;
#endif
  return false;
}

}  // namespace
}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cpu_supports, gradplan::ffi::cpu_supports);
