#include "cuda/device.h"

namespace gradplan::cuda {
namespace {

constexpr unsigned kSharedWithoutAsking = 48 << 10;
constexpr int kMaxDynamicShared = 8;             // CU_FUNC_ATTRIBUTE_*
constexpr int kErrorLog = 5, kErrorLogSize = 6;  // CU_JIT_*
constexpr size_t kLog = 4096;

Context primary_context(const Driver& driver, int ordinal) {
  int device;
  Context context;
  GRADPLAN_CUDA_CHECK(driver, cuDeviceGet, &device, ordinal);
  GRADPLAN_CUDA_CHECK(driver, cuDevicePrimaryCtxRetain, &context, device);
  return context;
}

}  // namespace

Device::Device(const Driver& driver, int ordinal)
    : driver(driver),
      context(primary_context(driver, ordinal)),
      name_("cuda:" + std::to_string(ordinal)) {}

Device& Device::at(const std::string& library, int ordinal) {
  const Driver& driver = Driver::in(library);
  static std::mutex mutex;
  static auto* const devices =
      new std::map<std::pair<const Driver*, int>, std::unique_ptr<Device>>;  // never given back
  const std::lock_guard lock(mutex);
  auto& device = (*devices)[{&driver, ordinal}];
  if (device == nullptr) device.reset(new Device(driver, ordinal));
  return *device;
}

Entry Device::load(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (auto found = loaded_.find(kernel.ptx); found != loaded_.end()) return found->second;
  const OutsideOfCapture allowed(driver);
  std::string log(kLog, '\0');
  int options[] = {kErrorLog, kErrorLogSize};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  Module module;
  const int code = driver.cuModuleLoadDataEx(&module, kernel.ptx.c_str(), 2, options, values);
  driver.check(code, "cuModuleLoadDataEx", kernel.key + " on " + name_ + ": " + log.c_str());
  Entry entry;
  driver.check(driver.cuModuleGetFunction(&entry, module, kernel.entry.c_str()),
               "cuModuleGetFunction", kernel.key);
  if (kernel.shared > kSharedWithoutAsking)
    driver.check(driver.cuFuncSetAttribute(entry, kMaxDynamicShared, int(kernel.shared)),
                 "cuFuncSetAttribute", kernel.key);
  loaded_[kernel.ptx] = entry;
  return entry;
}

void Device::synchronize() const {
  const Current current(driver, context);
  GRADPLAN_CUDA_CHECK(driver, cuCtxSynchronize);
}

}  // namespace gradplan::cuda
