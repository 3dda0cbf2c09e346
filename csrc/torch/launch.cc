#include "launch.h"

#include <memory>

namespace gradplan {
namespace {

bool is_packed(const DLTensor& t) {
  if (t.strides == nullptr) return true;
  int64_t stride = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != stride) return false;
    stride *= t.shape[d];
  }
  return true;
}

Launch::Outcome outcome(const Launch& launch, TVMFFIAny* arguments, int count) {
  TVMFFIAny result{};
  PyThreadState* const lock = launch.release_lock ? PyEval_SaveThread() : nullptr;
  const int failed = TVMFFIFunctionCall(launch.kernel, arguments, count, &result);
  if (lock != nullptr) PyEval_RestoreThread(lock);
  if (!failed) return Launch::Outcome::kDone;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error != nullptr) TVMFFIObjectDecRef(error);
  // Python has an error already if a signal's handler raised meanwhile.
  return PyErr_Occurred() ? Launch::Outcome::kError : Launch::Outcome::kRefused;
}

Ref new_output(const Output& output, PyObject* allocate, PyObject* const* inputs, int count,
               const DLTensor* seen) {
  const bool usual =
      output.arguments.get() != Py_None && (output.like < 0 || is_packed(seen[output.like]));
  if (usual) return Ref(PyObject_CallObject(allocate, output.arguments.get()));
  const Ref given = tuple_of(inputs, count);
  return Ref(given ? PyObject_CallFunctionObjArgs(output.make.get(), given.get(), nullptr)
                   : nullptr);
}

}  // namespace

Launch::Outcome Launch::run(const Tensors& tensors, PyObject* allocate, PyObject* const* inputs,
                            int count, DLTensor* seen, PyObject* const* wanted,
                            Ref& results) const {
  TVMFFIAny arguments[kMaxTensors] = {};
  auto pass = [&](int i) {
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &seen[i];
  };
  for (int i = 0; i < count; ++i)
    if (inputs[i] != Py_None) pass(i);  // an argument that is nothing is None, too
  results = Ref(PyTuple_New(Py_ssize_t(outputs.size())));
  if (!results) return Outcome::kError;
  for (int i = 0; i < int(outputs.size()); ++i) {
    const bool left_out = wanted != nullptr && wanted[i] == Py_False;
    Ref result =
        left_out ? Ref::to(Py_None) : new_output(outputs[i], allocate, inputs, count, seen);
    if (!result) return Outcome::kError;
    if (!left_out) {
      if (!tensors.look_at(result.get(), seen[count + i])) return Outcome::kRefused;
      pass(count + i);
    }
    if (PyTuple_SetItem(results.get(), i, result.release()) < 0) return Outcome::kError;
  }
  return outcome(*this, arguments, count + int(outputs.size()));
}

Ref Launch::parse(PyObject* described, int inputs, int outputs) {
  PyObject *kernel, *made, *options;
  unsigned long long handle;
  int release_lock;
  if (!PyArg_ParseTuple(described, "OKpO!O", &kernel, &handle, &release_lock, &PyTuple_Type, &made,
                        &options))
    return Ref();
  if (PyTuple_Size(made) != outputs) {
    PyErr_Format(PyExc_ValueError, "expected %d outputs, got %zd", outputs, PyTuple_Size(made));
    return Ref();
  }
  auto launch = std::make_unique<Launch>();
  for (const Ref& output : members(made)) {
    PyObject *arguments, *make;
    int like;
    if (!PyArg_ParseTuple(output.get(), "OOi", &arguments, &make, &like)) return Ref();
    if (like >= inputs) {
      PyErr_SetString(PyExc_ValueError, "no such input");
      return Ref();
    }
    launch->outputs.push_back({Ref::to(arguments), Ref::to(make), like});
  }
  launch->kernel = reinterpret_cast<TVMFFIObjectHandle>(uintptr_t(handle));
  launch->kernel_owner = Ref::to(kernel);
  launch->release_lock = release_lock != 0;
  launch->options = Ref::to(options);
  Ref capsule(PyCapsule_New(launch.get(), kName, [](PyObject* self) {
    delete static_cast<Launch*>(PyCapsule_GetPointer(self, kName));
  }));
  if (capsule) launch.release();
  return capsule;
}

}  // namespace gradplan
