#include "cuda/driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace gradplan::cuda {

using ffi::PlanError;

Driver::Driver(const std::string& library) {
  void* const found = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr)
    throw PlanError("Unsupported", std::string("no NVIDIA driver found (") + dlerror() + ")");
  const auto find = [&](auto& member, const char* name) {
    member = reinterpret_cast<std::decay_t<decltype(member)>>(dlsym(found, name));
    if (member == nullptr)
      throw PlanError("Unsupported",
                      "the NVIDIA driver is too old: " + library + " has no " + name);
  };
#define GRADPLAN_CUDA_FIND(member, name, parameters) find(member, name);
  GRADPLAN_CUDA_FUNCTIONS(GRADPLAN_CUDA_FIND)
#undef GRADPLAN_CUDA_FIND
  if (const int code = cuInit(0); code != 0)
    throw PlanError("Unsupported", "the NVIDIA driver does not start: " + explain(code));
}

const Driver& Driver::in(const std::string& library) {
  static std::mutex mutex;
  static auto* const drivers =
      new std::map<std::string, std::unique_ptr<Driver>>;  // never unloaded
  const std::lock_guard lock(mutex);
  auto& driver = (*drivers)[library];
  if (driver == nullptr) driver.reset(new Driver(library));
  return *driver;
}

std::string Driver::explain(int code) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  return (name != nullptr ? name : "CUDA error " + std::to_string(code)) +
         (text != nullptr ? std::string(" (") + text + ")" : "");
}

void Driver::check(int code, const char* function, const std::string& detail) const {
  if (code != 0)
    throw PlanError("KernelError",
                    explain(code) + " in " + function + (detail.empty() ? "" : ": " + detail));
}

Current::Current(const Driver& driver, Context context) : driver_(driver) {
  GRADPLAN_CUDA_CHECK(driver, cuCtxPushCurrent, context);
}

Current::~Current() {
  Context before;
  driver_.cuCtxPopCurrent(&before);
}

OutsideOfCapture::OutsideOfCapture(const Driver& driver) : driver_(driver) {
  GRADPLAN_CUDA_CHECK(driver, cuThreadExchangeStreamCaptureMode, &mode_);
}

OutsideOfCapture::~OutsideOfCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

}  // namespace gradplan::cuda
