// A kernel as a function of PyTorch's tensors that returns new ones.
//
// The same could be said in Python, and is where this module is missing (torch/launching.py). But
// of a call with small tensors most is not the kernel: it is looking at tensors, allocating outputs
// and handing both over, each through a layer that looks at its arguments anew. Here it is one call
// of a C function.
#include <tvm/ffi/c_api.h>

#include <new>
#include <vector>

#include "functions.h"
#include "tensors.h"

namespace gradplan {
namespace {

constexpr int kMaxTensors = 8;

struct Output {
  Ref arguments;  // of `allocate`
  int like;       // the input whose strides it gets if they are unusual, or -1
};

struct Launch {
  static constexpr const char* kName = "gradplan.torch.launch";

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
  const auto* launch = bound_to<const Launch>(self);
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

}  // namespace

PyObject* make_launch(PyObject*, PyObject* arguments) try {
  PyObject *kernel, *tensor_type, *outputs, *allocate, *empty_like, *otherwise;
  unsigned long long handle;
  int release_lock;
  auto launch = std::make_unique<Launch>();
  if (!PyArg_ParseTuple(arguments, "OKpO!iO!OOO", &kernel, &handle, &release_lock, &PyType_Type,
                        &tensor_type, &launch->inputs, &PyTuple_Type, &outputs, &allocate,
                        &empty_like, &otherwise) ||
      !Tensors::of(tensor_type, launch->tensors) || !read_outputs(outputs, *launch))
    return nullptr;
  launch->kernel = reinterpret_cast<TVMFFIObjectHandle>(uintptr_t(handle));
  launch->kernel_owner = Ref::to(kernel);
  launch->allocate = Ref::to(allocate);
  launch->empty_like = Ref::to(empty_like);
  launch->otherwise = Ref::to(otherwise);
  launch->release_lock = release_lock != 0;
  static PyMethodDef function = method("launch", call);
  return bind(function, own(std::move(launch))).release();
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

}  // namespace gradplan
