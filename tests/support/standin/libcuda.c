// A stand-in for NVIDIA's driver: as much of its interface as gradplan uses, strict about it.
// Launches call back into Python, which executes the PTX. What a call must not do (a launch without
// a current context, loading while a graph is captured) is an error here as it is there.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_PTX = 218,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900,
};

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

#define MOST 8
struct context {
  int device;
};
struct module {
  int device;
  char* ptx;
};
struct function {
  struct module* module;
  char name[512];
  int shared;
};
typedef int (*launcher)(const char* ptx, const char* name, int device, const unsigned* shape,
                        uint64_t stream, void** parameters);

static struct context contexts[MOST];
static int device_count, major[MOST], minor[MOST];
static int retained[MOST], modules_loaded, host_allocations, waits;
static uint64_t captured;  // the stream that is being captured, + 1
static launcher launch;
static void (*wait_for)(int device);
static void (*allocated)(uint64_t memory, uint64_t size, int device);  // size 0: it is gone
static char failing[64];
static int failure;
static _Thread_local struct context* stack[16];
static _Thread_local int depth, relaxed;

// For tests.
void standin_devices(int count, const int* majors, const int* minors) {
  device_count = count;
  for (int i = 0; i < count; ++i)
    major[i] = majors[i], minor[i] = minors[i], contexts[i].device = i;
}
void standin_callbacks(launcher l, void (*w)(int), void (*a)(uint64_t, uint64_t, int)) {
  launch = l, wait_for = w, allocated = a;
}
void standin_fail(const char* function, int code) {
  snprintf(failing, sizeof failing, "%s", function);
  failure = code;
}
void standin_capture(uint64_t stream, int begins) { captured = begins ? stream + 1 : 0; }
int standin_count(const char* what) {
  if (!strcmp(what, "modules")) return modules_loaded;
  if (!strcmp(what, "host allocations")) return host_allocations;
  if (!strcmp(what, "waits")) return waits;
  if (!strcmp(what, "contexts")) return retained[0] + retained[1];
  return !strcmp(what, "depth") ? depth : -1;
}

#define ENTER                                     \
  if (failing[0] && !strcmp(failing, __func__)) { \
    failing[0] = 0;                               \
    return failure;                               \
  }
#define NEEDS_CONTEXT \
  if (depth == 0) return INVALID_CONTEXT;
#define NOT_WHILE_CAPTURING \
  if (captured && !relaxed) return CAPTURE_UNSUPPORTED;

static int describe(int code, const char** out, int text) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
    if (errors[i].code == code) return *out = text ? errors[i].text : errors[i].name, SUCCESS;
  return *out = NULL, INVALID_VALUE;
}
int cuGetErrorName(int code, const char** out) { return describe(code, out, 0); }
int cuGetErrorString(int code, const char** out) { return describe(code, out, 1); }

int cuInit(unsigned flags) {
  ENTER
  return flags ? INVALID_VALUE : SUCCESS;
}
int cuDriverGetVersion(int* version) {
  ENTER
  return *version = 12040, SUCCESS;
}
int cuDeviceGetCount(int* count) {
  ENTER
  return *count = device_count, SUCCESS;
}
int cuDeviceGet(int* device, int ordinal) {
  ENTER
  if (ordinal < 0 || ordinal >= device_count) return INVALID_DEVICE;
  return *device = ordinal, SUCCESS;
}
int cuDeviceGetName(char* name, int size, int device) {
  ENTER
  return snprintf(name, (size_t)size, "Stand-in %d", device), SUCCESS;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER
  if (attribute != 75 && attribute != 76) return INVALID_VALUE;
  return *value = attribute == 75 ? major[device] : minor[device], SUCCESS;
}
int cuDevicePrimaryCtxRetain(struct context** context, int device) {
  ENTER
  if (device < 0 || device >= device_count) return INVALID_DEVICE;
  ++retained[device];
  return *context = &contexts[device], SUCCESS;
}
int cuCtxPushCurrent_v2(struct context* context) {
  ENTER
  if (depth == 16) return INVALID_VALUE;
  return stack[depth++] = context, SUCCESS;
}
int cuCtxPopCurrent_v2(struct context** context) {
  NEEDS_CONTEXT
  return *context = stack[--depth], SUCCESS;
}
int cuCtxSynchronize(void) {
  ENTER
  NEEDS_CONTEXT
  if (captured) return CAPTURE_UNSUPPORTED;
  ++waits;
  if (wait_for) wait_for(stack[depth - 1]->device);
  return SUCCESS;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER
  const int before = relaxed ? 2 : 0;
  relaxed = *mode == 2;
  return *mode = before, SUCCESS;
}
int cuStreamIsCapturing(uint64_t stream, int* status) {
  ENTER
  NEEDS_CONTEXT
  return *status = captured == stream + 1, SUCCESS;
}
int cuModuleLoadDataEx(struct module** module, const void* image, unsigned count, int* options,
                       void** values) {
  ENTER
  NEEDS_CONTEXT
  NOT_WHILE_CAPTURING
  if (!strstr(image, ".entry")) {  // CU_JIT_ERROR_LOG_BUFFER and its size
    for (unsigned i = 0; i + 1 < count; ++i)
      if (options[i] == 5) snprintf(values[i], (size_t)values[i + 1], "ptxas: no .entry");
    return INVALID_PTX;
  }
  *module = malloc(sizeof **module);
  **module = (struct module){stack[depth - 1]->device, strdup(image)};
  return ++modules_loaded, SUCCESS;
}
int cuModuleGetFunction(struct function** function, struct module* module, const char* name) {
  ENTER
  NEEDS_CONTEXT
  if (!strstr(module->ptx, name)) return NOT_FOUND;
  *function = calloc(1, sizeof **function);
  (*function)->module = module;
  snprintf((*function)->name, sizeof(*function)->name, "%s", name);
  return SUCCESS;
}
int cuFuncSetAttribute(struct function* function, int attribute, int value) {
  ENTER
  if (attribute != 8) return INVALID_VALUE;
  return function->shared = value, SUCCESS;
}
int cuMemAlloc_v2(uint64_t* memory, size_t size) {
  ENTER
  NEEDS_CONTEXT
  NOT_WHILE_CAPTURING
  void* made = aligned_alloc(256, (size + 255) / 256 * 256);
  *memory = (uint64_t)(uintptr_t)made;
  if (allocated) allocated(*memory, size, stack[depth - 1]->device);
  return SUCCESS;
}
int cuMemFree_v2(uint64_t memory) {
  ENTER
  NEEDS_CONTEXT
  if (allocated) allocated(memory, 0, stack[depth - 1]->device);
  return free((void*)(uintptr_t)memory), SUCCESS;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t size) {
  ENTER
  NEEDS_CONTEXT
  return memcpy((void*)(uintptr_t)to, from, size), SUCCESS;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size) {
  ENTER
  NEEDS_CONTEXT
  if (wait_for) wait_for(stack[depth - 1]->device);
  return memcpy(to, (void*)(uintptr_t)from, size), SUCCESS;
}
int cuMemHostAlloc(void** memory, size_t size, unsigned flags) {
  ENTER
  NEEDS_CONTEXT
  NOT_WHILE_CAPTURING
  if (flags != 3) return INVALID_VALUE;  // portable, and mapped
  ++host_allocations;
  *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  if (allocated) allocated((uint64_t)(uintptr_t)*memory, size, stack[depth - 1]->device);
  return SUCCESS;
}
int cuMemHostGetDevicePointer_v2(uint64_t* device, void* memory, unsigned flags) {
  ENTER
  NEEDS_CONTEXT
  return *device = (uint64_t)(uintptr_t)memory, flags ? INVALID_VALUE : SUCCESS;
}
int cuLaunchKernel(struct function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   uint64_t stream, void** parameters, void** extra) {
  ENTER
  NEEDS_CONTEXT
  if (stack[depth - 1]->device != function->module->device) return INVALID_HANDLE;
  if (extra || block_y != 1 || block_z != 1) return INVALID_VALUE;
  if (!grid_x || !grid_y || !grid_z || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535)
    return INVALID_VALUE;
  if (shared > 48 << 10 && (unsigned)function->shared < shared) return INVALID_VALUE;
  const unsigned shape[] = {grid_x, grid_y, grid_z, block_x, shared};
  return launch ? launch(function->module->ptx, function->name, function->module->device, shape,
                         stream, parameters)
                : LAUNCH_FAILED;
}
