// The module gradplan.torch._fast_path: one object per operator, which runs the kernel of a call
// that has been made before if PyTorch's dispatcher would do no more than that, and otherwise
// declines. torch/fast_path.py says what its methods mean.
//
// Of a call with small tensors most is not the kernel: it is looking at tensors, allocating outputs
// and handing both over, each through a layer that looks at its arguments anew. Here it is one call
// of a C function.
#include <algorithm>
#include <memory>
#include <new>

#include "cache.h"
#include "dispatcher.h"
#include "launch.h"

namespace gradplan {
namespace {

constexpr int kMaxArguments = 16;

struct FastPath {
  Tensors tensors;
  Dispatcher dispatcher;
  Ref allocate, apply;
  int inputs, options, outputs;
  int first;                // so many of the outputs may have gradients
  std::vector<int> floats;  // which of the inputs are not indices
  std::vector<int> kept;    // which of the inputs and outputs the gradient reads
  Cache cache;
};

struct Object {
  PyObject_HEAD FastPath* path;
};

FastPath& path_of(PyObject* self) { return *reinterpret_cast<Object*>(self)->path; }

// For a call with that many arguments; or nullptr and an error.
FastPath* path_for(PyObject* self, Py_ssize_t count) {
  FastPath& path = path_of(self);
  if (count == path.inputs + path.options) return &path;
  PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd", path.inputs + path.options,
               count);
  return nullptr;
}

bool look_at(const FastPath& path, PyObject* const* arguments, DLTensor* seen, Call& call) {
  bool fits = call.has_plain_options();
  for (int i = 0; fits && i < path.inputs; ++i)
    fits = arguments[i] == Py_None
               ? call.add_none()
               : path.tensors.look_at(arguments[i], seen[i]) && call.add(seen[i]);
  if (!fits) PyErr_Clear();
  return fits;
}

// What became of a call: results in a tuple, or none for one of the other reasons.
struct Served {
  enum Outcome { kDone, kUnknown, kRefused, kError } outcome;
  Ref launch, results;
};

Served serve(FastPath& path, PyObject* const* arguments, PyObject* const* wanted = nullptr) {
  Served served{Served::kRefused, Ref(), Ref()};
  DLTensor seen[kMaxTensors];
  Call call(arguments + path.inputs, path.options);
  if (!look_at(path, arguments, seen, call)) return served;
  served.launch = path.cache.find(call);
  if (!served.launch) served.outcome = Served::kUnknown;
  const Launch* const launch = Launch::in(served.launch);
  if (launch == nullptr) return served;
  switch (launch->run(path.tensors, path.allocate.get(), arguments, path.inputs, seen, wanted,
                      served.results)) {
    case Launch::Outcome::kDone: served.outcome = Served::kDone; break;
    case Launch::Outcome::kRefused: PyErr_Clear(); break;
    case Launch::Outcome::kError: served.outcome = Served::kError; break;
  }
  return served;
}

PyObject* single(const FastPath& path, const Served& served) {  // borrowed
  PyObject* const results = served.results.get();
  return path.outputs > 1 ? results : PyTuple_GetItem(results, 0);
}

// The results, with gradients recorded. Autograd looks at each tensor that it is given, which takes
// its time: it gets `count` of them.
PyObject* record(const FastPath& path, const Served& served, PyObject* const* inputs, int count) {
  PyObject *kept[kMaxTensors], *floats[kMaxTensors];
  int kept_count = 0;
  for (int i = 0; i < count; ++i) floats[i] = inputs[path.floats[i]];
  for (int i : path.kept)
    kept[kept_count++] =
        i < path.inputs ? inputs[i] : PyTuple_GetItem(served.results.get(), i - path.inputs);
  const Ref saved = tuple_of(kept, kept_count);
  PyObject* const results = served.results.get();
  const bool all = path.first == path.outputs;
  const Ref first = all               ? Ref::to(single(path, served))
                    : path.first == 1 ? Ref::to(PyTuple_GetItem(results, 0))
                                      : Ref(PyTuple_GetSlice(results, 0, path.first));
  PyObject* const options = Launch::in(served.launch)->options.get();
  PyObject* const made[] = {first.get(), options, saved.get(), Py_None};
  Ref given = tuple_of(floats, count, 1);
  if (!first || !saved || !given ||
      PyTuple_SetItem(given.get(), 0, tuple_of(made, 4).release()) < 0)
    return nullptr;
  Ref recorded(PyObject_CallObject(path.apply.get(), given.get()));
  if (all || !recorded) return recorded.release();
  PyObject* everything[kMaxTensors];
  for (int i = 0; i < path.outputs; ++i)
    everything[i] = i >= path.first  ? PyTuple_GetItem(results, i)
                    : path.first > 1 ? PyTuple_GetItem(recorded.get(), i)
                                     : recorded.get();
  return tuple_of(everything, path.outputs).release();
}

PyObject* call_outside(FastPath& path, PyObject* const* arguments, PyObject* const* wanted) {
  if (path.dispatcher.would_notice(arguments, path.inputs, path.floats)) Py_RETURN_NONE;
  const int recorded = path.dispatcher.recorded(arguments, path.floats);
  const Served served = serve(path, arguments, wanted);
  if (served.outcome == Served::kError) return nullptr;
  if (served.outcome != Served::kDone) Py_RETURN_NONE;
  return recorded > 0 ? record(path, served, arguments, recorded)
                      : Ref::to(single(path, served)).release();
}

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) try {
  FastPath* const path = path_for(self, count);
  return path != nullptr ? call_outside(*path, arguments, nullptr) : nullptr;
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyObject* call_backward(PyObject* self, PyObject* const* given, Py_ssize_t count) try {
  FastPath& path = path_of(self);
  PyObject* arguments[kMaxArguments];
  const int expected = path.inputs + path.options;
  int found = 0;
  for (Py_ssize_t k = 0; k < count - 1; ++k)
    for (Py_ssize_t i = 0; i < PyTuple_Size(given[k]) && found < expected; ++i)
      arguments[found++] = PyTuple_GetItem(given[k], i);
  const int results = count > 0 ? int(PyTuple_Size(given[count - 1])) - 1 : 0;
  if (PyErr_Occurred()) return nullptr;
  if (found != expected || results < 1 || results > path.outputs)
    return PyErr_Format(PyExc_TypeError, "expected tuples of %d arguments in all and 2 to %d flags",
                        expected, 1 + path.outputs);
  PyObject* wanted[kMaxTensors];
  for (int i = 0; i < path.outputs; ++i)
    wanted[i] = i < results ? PyTuple_GetItem(given[count - 1], 1 + i) : Py_False;
  Ref result(call_outside(path, arguments, path.outputs > 1 ? wanted : nullptr));
  if (!result || result.get() == Py_None) return result.release();
  PyObject* gradients[1 + kMaxTensors] = {Py_None, result.get()};
  for (int i = 0; path.outputs > 1 && i < results; ++i)
    gradients[1 + i] = PyTuple_GetItem(result.get(), i);
  return tuple_of(gradients, 1 + results).release();
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyObject* run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) try {
  FastPath* const path = path_for(self, count);
  if (path == nullptr) return nullptr;
  const Served served = serve(*path, arguments);
  switch (served.outcome) {
    case Served::kDone: return Ref::to(single(*path, served)).release();
    case Served::kUnknown: Py_RETURN_NONE;
    case Served::kRefused: Py_RETURN_NOTIMPLEMENTED;
    case Served::kError: break;
  }
  return nullptr;
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyObject* add(PyObject* self, PyObject* const* given, Py_ssize_t count) try {
  FastPath* const path = path_for(self, count - 1);
  if (path == nullptr) return nullptr;
  DLTensor seen[kMaxTensors];
  Call call(given + 1 + path->inputs, path->options);
  if (!look_at(*path, given + 1, seen, call)) Py_RETURN_NONE;
  Ref launch =
      given[0] == Py_None ? Ref::to(Py_None) : Launch::parse(given[0], path->inputs, path->outputs);
  if (!launch || !path->cache.add(call, launch.get())) return nullptr;
  Py_RETURN_NONE;
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

PyObject* clear(PyObject* self, PyObject*) {
  path_of(self).cache.clear();
  Py_RETURN_NONE;
}

bool parse_positions(PyObject* tuple, int end, std::vector<int>& positions) {
  for (const Ref& position : members(tuple)) {
    const long at = PyLong_AsLong(position.get());
    if (PyErr_Occurred()) return false;
    if (at < 0 || at >= end || std::ranges::count(positions, at)) {
      PyErr_Format(PyExc_ValueError, "expected different positions below %d", end);
      return false;
    }
    positions.push_back(int(at));
  }
  return true;
}

bool parse(PyObject* arguments, FastPath& path) {
  PyObject *tensor_type, *dispatcher, *allocate, *apply, *floats, *kept;
  Py_ssize_t limit;
  if (!PyArg_ParseTuple(arguments, "O!O!OOO!O!iiiin", &PyType_Type, &tensor_type, &PyTuple_Type,
                        &dispatcher, &allocate, &apply, &PyTuple_Type, &floats, &PyTuple_Type,
                        &kept, &path.inputs, &path.options, &path.outputs, &path.first, &limit) ||
      !Tensors::of(tensor_type, path.tensors) || !Dispatcher::parse(dispatcher, path.dispatcher) ||
      !path.cache.make(limit))
    return false;
  path.allocate = Ref::to(allocate);
  path.apply = Ref::to(apply);
  if (path.inputs < 1 || path.options < 0 || path.outputs < 1 || path.first < 0 ||
      path.first > path.outputs || path.inputs + path.outputs > kMaxTensors ||
      path.inputs + path.options > kMaxArguments) {
    PyErr_Format(PyExc_ValueError,
                 "expected at most %d tensors, an output among them, and %d "
                 "arguments",
                 kMaxTensors, kMaxArguments);
    return false;
  }
  return parse_positions(floats, path.inputs, path.floats) &&
         parse_positions(kept, path.inputs + path.outputs, path.kept);
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) try {
  auto path = std::make_unique<FastPath>();
  if (!parse(arguments, *path)) return nullptr;
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const self = allocate(type, 0);
  if (self != nullptr) reinterpret_cast<Object*>(self)->path = path.release();
  return self;
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  delete reinterpret_cast<Object*>(self)->path;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

template <class F>
PyMethodDef method(const char* name, F* function, int flags) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), flags, nullptr};
}

PyMethodDef kMethods[] = {
    method("call", call, METH_FASTCALL), method("call_backward", call_backward, METH_FASTCALL),
    method("run", run, METH_FASTCALL),   method("add", add, METH_FASTCALL),
    method("clear", clear, METH_NOARGS), {nullptr, nullptr, 0, nullptr}};
PyType_Slot kTypeSlots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                            {Py_tp_methods, kMethods},
                            {0, nullptr}};
PyType_Spec kType = {"gradplan.torch._fast_path.FastPath", sizeof(Object), 0, Py_TPFLAGS_DEFAULT,
                     kTypeSlots};

int fill(PyObject* module) {
  Ref type(PyType_FromModuleAndSpec(module, &kType, nullptr));
  return type ? PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) : -1;
}

PyModuleDef_Slot kSlots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "_fast_path",
                       "Calls of small tensors past PyTorch's dispatcher.",
                       0,
                       nullptr,
                       kSlots,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace gradplan

PyMODINIT_FUNC PyInit__fast_path() { return PyModuleDef_Init(&gradplan::kModule); }
