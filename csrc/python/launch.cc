// A kernel as a function of PyTorch's tensors that returns new ones, and a key of tensors' shapes
// to find it by.
//
// The same could be said in Python, and is where this module is missing (torch/launching.py). But
// of a call with small tensors most is not the kernel: it is looking at tensors, allocating outputs
// and handing both over, each through a layer that looks at its arguments anew. Here each of the
// two is one call of a C function.
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

template <class T>
const T* bound_to(PyObject* self) {
  return static_cast<const T*>(PyCapsule_GetPointer(self, kCapsule));
}

// PyTorch's tensors, and the way to look at their memory.
struct Tensors {
  Ref type;
  const DLPackExchangeAPI* api;

  // As a kernel sees it; what has no memory (a batch of vmap, say) is refused.
  bool look_at(PyObject* tensor, DLTensor& seen) const {
    return PyObject_TypeCheck(tensor, reinterpret_cast<PyTypeObject*>(type.get())) &&
           api->dltensor_from_py_object_no_sync(tensor, &seen) == 0;
  }
};

struct Output {
  Ref arguments;  // of `allocate`
  int like;       // the input whose strides it gets if they are unusual, or -1
};

struct Launch {
  TVMFFIObjectHandle kernel;
  Ref kernel_owner;
  Tensors tensors;
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
    if (!launch.tensors.look_at(given[i], seen[i])) return Outcome::kRefused;
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
    if (!launch.tensors.look_at(results[i].get(), seen[at])) return Outcome::kRefused;
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
  const auto* launch = bound_to<Launch>(self);
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

bool read_type(PyObject* type, Tensors& tensors) {
  Ref capsule(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  if (!capsule) return false;
  tensors.type = Ref::to(type);
  tensors.api = static_cast<const DLPackExchangeAPI*>(
      PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  if (tensors.api == nullptr) return false;
  const int version = int(tensors.api->header.version.major);
  if (version == DLPACK_MAJOR_VERSION && tensors.api->dltensor_from_py_object_no_sync != nullptr)
    return true;
  PyErr_Format(PyExc_ImportError, "expected version %d of DLPack's exchange table, got %d",
               DLPACK_MAJOR_VERSION, version);
  return false;
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

// A function with something of ours bound to it.
template <class T>
PyObject* bind(PyMethodDef& function, std::unique_ptr<T> bound) {
  Ref capsule(PyCapsule_New(bound.get(), kCapsule, [](PyObject* self) {
    delete static_cast<T*>(PyCapsule_GetPointer(self, kCapsule));
  }));
  if (!capsule) return nullptr;
  bound.release();
  return PyCFunction_NewEx(&function, capsule.get(), nullptr);
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
PyMethodDef method(const char* name, Fast function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL,
          nullptr};
}

PyObject* make(PyObject*, PyObject* arguments) try {
  PyObject *kernel, *tensor_type, *outputs, *allocate, *empty_like, *otherwise;
  unsigned long long handle;
  int release_lock;
  auto launch = std::make_unique<Launch>();
  if (!PyArg_ParseTuple(arguments, "OKpO!iO!OOO", &kernel, &handle, &release_lock, &PyType_Type,
                        &tensor_type, &launch->inputs, &PyTuple_Type, &outputs, &allocate,
                        &empty_like, &otherwise) ||
      !read_type(tensor_type, launch->tensors) || !read_outputs(outputs, *launch))
    return nullptr;
  launch->kernel = reinterpret_cast<TVMFFIObjectHandle>(uintptr_t(handle));
  launch->kernel_owner = Ref::to(kernel);
  launch->allocate = Ref::to(allocate);
  launch->empty_like = Ref::to(empty_like);
  launch->otherwise = Ref::to(otherwise);
  launch->release_lock = release_lock != 0;
  static PyMethodDef function = method("launch", call);
  return bind(function, std::move(launch));
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

// Keys ------------------------------------------------------------------------------------------

struct Key {
  Tensors tensors;
  Ref exact_types;  // a tuple: subclasses of these are refused; or None
};

bool accepts(const Key& key, PyObject* tensor) {
  if (key.exact_types.get() == Py_None) return true;
  const Py_ssize_t count = PyTuple_Size(key.exact_types.get());
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyTuple_GetItem(key.exact_types.get(), i) == reinterpret_cast<PyObject*>(Py_TYPE(tensor)))
      return true;
  return false;
}

// Ranks, shapes and element types of tensors in the CPU's memory as bytes, or None for others.
PyObject* key_of(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  const auto* key = bound_to<Key>(self);
  if (key == nullptr) return nullptr;
  constexpr int kRoom = 64;
  int64_t words[kRoom];
  int used = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    DLTensor seen;
    if (!accepts(*key, given[i]) || !key->tensors.look_at(given[i], seen) ||
        seen.device.device_type != kDLCPU || used + seen.ndim + 1 > kRoom) {
      PyErr_Clear();
      Py_RETURN_NONE;
    }
    words[used++] = int64_t(seen.ndim) << 32 | seen.dtype.code << 16 | seen.dtype.bits;
    for (int d = 0; d < seen.ndim; ++d) words[used++] = seen.shape[d];
  }
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words), used * sizeof(int64_t));
}

PyObject* make_key(PyObject*, PyObject* arguments) try {
  PyObject *tensor_type, *exact_types;
  auto key = std::make_unique<Key>();
  if (!PyArg_ParseTuple(arguments, "O!O", &PyType_Type, &tensor_type, &exact_types) ||
      !read_type(tensor_type, key->tensors))
    return nullptr;
  key->exact_types = Ref::to(exact_types);
  static PyMethodDef function = method("key", key_of);
  return bind(function, std::move(key));
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyMethodDef kMethods[] = {
    {"make", make, METH_VARARGS,
     "make(kernel, handle, release_lock, tensor_type, inputs, outputs, allocate, empty_like, "
     "otherwise)"},
    {"make_key", make_key, METH_VARARGS, "make_key(tensor_type, exact_types)"},
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
