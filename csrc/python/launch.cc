// A kernel as a function of PyTorch's tensors that returns new ones.
//
// The same could be said in Python, and is where this module is missing (torch/launching.py). But
// of a call with small tensors most is not the kernel: it is allocating outputs and handing tensors
// over, each through a layer that looks at its arguments anew. Here both are one call of a C
// function.
//
// Only Python's stable interface is used, so that one build serves every version.
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
//
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace {

class Ref {  // owns a reference, or nothing
 public:
  explicit Ref(PyObject* owned = nullptr) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  static Ref to(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

constexpr int kMaxTensors = 8;
constexpr const char* kCapsule = "gradplan.torch._launch";

struct Output {
  Ref arguments;  // of `allocate`
  int like;       // the input whose strides it gets if they are unusual, or -1
};

struct Launch {
  TVMFFIObjectHandle kernel;
  Ref kernel_owner;
  const DLPackExchangeAPI* api;
  Ref tensor_type;
  int inputs;
  std::vector<Output> outputs;
  Ref allocate, empty_like, otherwise;
  bool release_lock;
};

bool is_packed(const DLTensor& t) {
  if (t.strides == nullptr) return true;
  int64_t stride = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != stride) return false;
    stride *= t.shape[d];
  }
  return true;
}

// Of a tensor as the kernel sees it; what has no memory (a batch of vmap, say) is refused.
bool look_at(const Launch& launch, PyObject* tensor, DLTensor& seen) {
  auto* type = reinterpret_cast<PyTypeObject*>(launch.tensor_type.get());
  return PyObject_TypeCheck(tensor, type) &&
         launch.api->dltensor_from_py_object_no_sync(tensor, &seen) == 0;
}

bool run(const Launch& launch, TVMFFIAny* arguments, int count) {
  TVMFFIAny result{};
  PyThreadState* const lock = launch.release_lock ? PyEval_SaveThread() : nullptr;
  const int failed = TVMFFIFunctionCall(launch.kernel, arguments, count, &result);
  if (lock != nullptr) PyEval_RestoreThread(lock);
  if (failed) {
    TVMFFIObjectHandle error = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    if (error != nullptr) TVMFFIObjectDecRef(error);
  }
  return !failed;
}

enum class Outcome { kDone, kRefused, kOutOfMemory };

Outcome attempt(const Launch& launch, PyObject* const* given, PyObject* const* wanted,
                Ref* results) {
  DLTensor seen[kMaxTensors];
  TVMFFIAny arguments[kMaxTensors] = {};
  auto pass = [&](int i) {
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &seen[i];
  };
  for (int i = 0; i < launch.inputs; ++i) {
    if (!look_at(launch, given[i], seen[i])) return Outcome::kRefused;
    pass(i);
  }
  int at = launch.inputs;
  for (size_t i = 0; i < launch.outputs.size(); ++i, ++at) {
    if (wanted != nullptr && wanted[i] == Py_False) {
      results[i] = Ref::to(Py_None);
      continue;  // the argument is None as well
    }
    const Output& output = launch.outputs[i];
    const bool usual = output.like < 0 || is_packed(seen[output.like]);
    results[i] = Ref(
        usual ? PyObject_CallObject(launch.allocate.get(), output.arguments.get())
              : PyObject_CallFunctionObjArgs(launch.empty_like.get(), given[output.like], nullptr));
    if (!results[i]) return Outcome::kOutOfMemory;
    if (!look_at(launch, results[i].get(), seen[at])) return Outcome::kRefused;
    pass(at);
  }
  return run(launch, arguments, at) ? Outcome::kDone : Outcome::kRefused;
}

// Somebody slower does it all again, and says what is wrong if it is wrong.
PyObject* call_otherwise(const Launch& launch, PyObject* const* given) {
  const int outputs = int(launch.outputs.size());
  Ref arguments(PyTuple_New(launch.inputs + outputs));
  if (!arguments) return nullptr;
  for (int i = 0; i < launch.inputs + outputs; ++i) {
    Ref argument = Ref::to(i < launch.inputs ? given[i] : Py_None);
    if (PyTuple_SetItem(arguments.get(), i, argument.release()) < 0) return nullptr;
  }
  return PyObject_CallObject(launch.otherwise.get(), arguments.get());
}

// launch(*inputs) or launch(*inputs, *wanted), one flag per output.
PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  const auto* launch = static_cast<const Launch*>(PyCapsule_GetPointer(self, kCapsule));
  if (launch == nullptr) return nullptr;
  const int inputs = launch->inputs, outputs = int(launch->outputs.size());
  if (count != inputs && count != inputs + outputs)
    return PyErr_Format(PyExc_TypeError,
                        "expected %d tensors and perhaps %d flags, got %zd arguments", inputs,
                        outputs, count);
  Ref results[kMaxTensors];
  switch (attempt(*launch, given, count > inputs ? given + inputs : nullptr, results)) {
    case Outcome::kOutOfMemory: return nullptr;
    case Outcome::kRefused: PyErr_Clear(); return call_otherwise(*launch, given);
    case Outcome::kDone: break;
  }
  if (outputs == 1) return results[0].release();
  Ref all(PyTuple_New(outputs));
  if (!all) return nullptr;
  for (int i = 0; i < outputs; ++i)
    if (PyTuple_SetItem(all.get(), i, results[i].release()) < 0) return nullptr;
  return all.release();
}

const DLPackExchangeAPI* exchange_api(PyObject* type) {
  Ref capsule(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  if (!capsule) return nullptr;
  auto* api = static_cast<const DLPackExchangeAPI*>(
      PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  if (api == nullptr) return nullptr;
  if (api->header.version.major != DLPACK_MAJOR_VERSION ||
      api->dltensor_from_py_object_no_sync == nullptr) {
    PyErr_Format(PyExc_ImportError, "expected version %d of DLPack's exchange table, got %d",
                 DLPACK_MAJOR_VERSION, int(api->header.version.major));
    return nullptr;
  }
  return api;
}

bool read_outputs(PyObject* described, Launch& launch) {
  const Py_ssize_t count = PyTuple_Size(described);
  if (count < 1 || launch.inputs < 0 || launch.inputs + count > kMaxTensors) {
    PyErr_Format(PyExc_ValueError, "expected at most %d tensors and an output among them",
                 kMaxTensors);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* arguments;
    int like;
    if (!PyArg_ParseTuple(PyTuple_GetItem(described, i), "O!i", &PyTuple_Type, &arguments, &like))
      return false;
    if (like >= launch.inputs) {
      PyErr_SetString(PyExc_ValueError, "no such input");
      return false;
    }
    launch.outputs.push_back({Ref::to(arguments), like});
  }
  return true;
}

void destroy(PyObject* capsule) {
  delete static_cast<Launch*>(PyCapsule_GetPointer(capsule, kCapsule));
}

PyMethodDef kCall = {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call)),
                     METH_FASTCALL, nullptr};

PyObject* make(PyObject*, PyObject* arguments) try {
  PyObject *kernel, *tensor_type, *outputs, *allocate, *empty_like, *otherwise;
  unsigned long long handle;
  int inputs, release_lock;
  if (!PyArg_ParseTuple(arguments, "OKpO!iO!OOO", &kernel, &handle, &release_lock, &PyType_Type,
                        &tensor_type, &inputs, &PyTuple_Type, &outputs, &allocate, &empty_like,
                        &otherwise))
    return nullptr;
  const DLPackExchangeAPI* api = exchange_api(tensor_type);
  if (api == nullptr) return nullptr;
  auto launch =
      std::unique_ptr<Launch>(new Launch{reinterpret_cast<TVMFFIObjectHandle>(uintptr_t(handle)),
                                         Ref::to(kernel),
                                         api,
                                         Ref::to(tensor_type),
                                         inputs,
                                         {},
                                         Ref::to(allocate),
                                         Ref::to(empty_like),
                                         Ref::to(otherwise),
                                         release_lock != 0});
  if (!read_outputs(outputs, *launch)) return nullptr;
  Ref capsule(PyCapsule_New(launch.get(), kCapsule, destroy));
  if (!capsule) return nullptr;
  launch.release();
  return PyCFunction_NewEx(&kCall, capsule.get(), nullptr);
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyMethodDef kMethods[] = {
    {"make", make, METH_VARARGS,
     "make(kernel, handle, release_lock, tensor_type, inputs, outputs, allocate, empty_like, "
     "otherwise)"},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef_Slot kSlots[] = {{0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "_launch",
                       "Kernels as functions of PyTorch's tensors.",
                       0,
                       kMethods,
                       kSlots,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__launch() { return PyModuleDef_Init(&kModule); }
