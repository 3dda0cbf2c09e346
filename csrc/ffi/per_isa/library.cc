// The interface of a library of kernels, which is compiled once per instruction set.
#include <cstring>

#include "ffi/bind.h"

namespace gradplan::ffi {
namespace {

Kernels& registered() {
  static auto* all = new Kernels;
  return *all;
}

}  // namespace

Registration::Registration(const KernelDefinition& kernel) { registered().push_back(kernel); }

}  // namespace gradplan::ffi

#define GP_EXPORT(name)                                                             \
  extern "C" GP_SHARED int __tvm_ffi_##name([[maybe_unused]] void* self,            \
                                            [[maybe_unused]] const TVMFFIAny* args, \
                                            [[maybe_unused]] int32_t count, TVMFFIAny* result)

GP_EXPORT(gradplan_bind) {
  return gradplan::ffi::bind(gradplan::ffi::registered(), args, count, result);
}

GP_EXPORT(gradplan_signatures) {
  return gradplan::ffi::signatures(gradplan::ffi::registered(), result);
}

GP_EXPORT(gradplan_isa) {
  const TVMFFIByteArray name{GRADPLAN_ISA, std::strlen(GRADPLAN_ISA)};
  return TVMFFIStringFromByteArray(&name, result);
}
