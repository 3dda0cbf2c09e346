// NVIDIA's driver, found when it is needed: no CUDA header is compiled and nothing is linked, so
// that the library loads on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ffi/error.h"

namespace gradplan::cuda {

using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Entry = struct FunctionObject*;
using Stream = struct StreamObject*;
using DevicePointer = uint64_t;

// The part of the driver's interface that is used here, by the driver's own names.
#define GRADPLAN_CUDA_FUNCTIONS(_)                                                                \
  _(cuInit, "cuInit", (unsigned flags))                                                           \
  _(cuGetErrorName, "cuGetErrorName", (int code, const char** name))                              \
  _(cuGetErrorString, "cuGetErrorString", (int code, const char** text))                          \
  _(cuDriverGetVersion, "cuDriverGetVersion", (int* version))                                     \
  _(cuDeviceGetCount, "cuDeviceGetCount", (int* count))                                           \
  _(cuDeviceGet, "cuDeviceGet", (int* device, int ordinal))                                       \
  _(cuDeviceGetName, "cuDeviceGetName", (char* name, int size, int device))                       \
  _(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))        \
  _(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context * context, int device))        \
  _(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (Context context))                                   \
  _(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (Context * context))                                   \
  _(cuCtxSynchronize, "cuCtxSynchronize", ())                                                     \
  _(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                     \
    (Module * module, const void* image, unsigned count, int* options, void** values))            \
  _(cuModuleGetFunction, "cuModuleGetFunction", (Entry * entry, Module module, const char* name)) \
  _(cuFuncSetAttribute, "cuFuncSetAttribute", (Entry entry, int attribute, int value))            \
  _(cuMemAlloc, "cuMemAlloc_v2", (DevicePointer * memory, size_t size))                           \
  _(cuMemFree, "cuMemFree_v2", (DevicePointer memory))                                            \
  _(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (DevicePointer to, const void* from, size_t size))           \
  _(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void* to, DevicePointer from, size_t size))                 \
  _(cuMemHostAlloc, "cuMemHostAlloc", (void** memory, size_t size, unsigned flags))               \
  _(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                    \
    (DevicePointer * device, void* memory, unsigned flags))                                       \
  _(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int* mode))          \
  _(cuStreamIsCapturing, "cuStreamIsCapturing", (Stream stream, int* status))                     \
  _(cuLaunchKernel, "cuLaunchKernel",                                                             \
    (Entry entry, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,            \
     unsigned block_y, unsigned block_z, unsigned shared, Stream stream, void** parameters,       \
     void** extra))

class Driver {
 public:
#define GRADPLAN_CUDA_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  GRADPLAN_CUDA_FUNCTIONS(GRADPLAN_CUDA_MEMBER)
#undef GRADPLAN_CUDA_MEMBER

  // The driver in a library, loaded and initialized once. PlanError: Unsupported if there is none.
  static const Driver& in(const std::string& library);

  // Throws KernelError with the driver's name for it if `code` is an error of `function`.
  void check(int code, const char* function, const std::string& detail = "") const;

 private:
  explicit Driver(const std::string& library);
  std::string explain(int code) const;
};

#define GRADPLAN_CUDA_CHECK(driver, function, ...) \
  (driver).check((driver).function(__VA_ARGS__), #function)

// Makes a context the current one of this thread for the life of the object.
class Current {
 public:
  Current(const Driver& driver, Context context);
  ~Current();
  Current(const Current&) = delete;

 private:
  const Driver& driver_;
};

// Lets this thread load and allocate while a CUDA graph is being captured: what is made here is
// made once, and is no part of the graph.
class OutsideOfCapture {
 public:
  explicit OutsideOfCapture(const Driver& driver);
  ~OutsideOfCapture();
  OutsideOfCapture(const OutsideOfCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

}  // namespace gradplan::cuda
