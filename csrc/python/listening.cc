#include "listening.h"

#include <algorithm>
#include <new>

#include "functions.h"

namespace gradplan {
namespace {

bool is_no(Ref answer) {
  if (answer.get() == Py_False) return true;
  const bool no = answer && PyObject_IsTrue(answer.get()) == 0;
  if (!no) PyErr_Clear();
  return no;
}

Ref ask(const Question& question) {
  PyObject* const function = question.function.get();
  return Ref(question.in_c != nullptr ? question.in_c(PyCFunction_GetSelf(function), nullptr)
                                      : PyObject_CallNoArgs(function));
}

Ref ask(const Question& method, PyObject* tensor) {
  return Ref(method.in_c != nullptr
                 ? method.in_c(tensor, nullptr)
                 : PyObject_CallFunctionObjArgs(method.function.get(), tensor, nullptr));
}

bool is_outside(PyObject* level) {
  const bool outside = level != nullptr && PyLong_AsLong(level) == -1 && !PyErr_Occurred();
  if (!outside) PyErr_Clear();
  return outside;
}

}  // namespace

bool Listening::anybody(PyObject* const* tensors, int count) const {
  for (int i = 0; i < count; ++i) {
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensors[i]));
    if (std::none_of(plain_types.begin(), plain_types.end(),
                     [&](const Ref& plain) { return plain.get() == type; }))
      return true;
  }
  for (const Question& question : questions)
    if (!is_no(ask(question))) return true;
  if (!is_outside(PyDict_GetItemWithError(variables.get(), level.get()))) return true;
  for (int i : floats)
    if (!is_no(ask(is_negated, tensors[i]))) return true;
  return false;
}

namespace {

// quiet(*tensors): True if nobody listens.
PyObject* quiet(PyObject* self, PyObject* const* tensors, Py_ssize_t count) {
  const auto* listening = bound_to<const Listening>(self);
  if (listening == nullptr) return nullptr;
  if (!listening->floats.empty() && listening->floats.back() >= count)
    return PyErr_Format(PyExc_TypeError, "expected %d tensors, got %zd",
                        listening->floats.back() + 1, count);
  return PyBool_FromLong(!listening->anybody(tensors, int(count)));
}

// Of a function in C that takes no arguments.
PyCFunction in_c(PyObject* function) {
  const bool simple =
      Py_TYPE(function) == &PyCFunction_Type && PyCFunction_GetFlags(function) == METH_NOARGS;
  return simple ? PyCFunction_GetFunction(function) : nullptr;
}

std::vector<Ref> members(PyObject* tuple) {
  std::vector<Ref> all;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i)
    all.push_back(Ref::to(PyTuple_GetItem(tuple, i)));
  return all;
}

}  // namespace

PyObject* make_quiet(PyObject*, PyObject* arguments) try {
  PyObject *plain_types, *floats, *questions, *is_negated, *bound_is_negated, *variables, *level;
  if (!PyArg_ParseTuple(arguments, "O!O!O!OOO!U", &PyTuple_Type, &plain_types, &PyTuple_Type,
                        &floats, &PyTuple_Type, &questions, &is_negated, &bound_is_negated,
                        &PyDict_Type, &variables, &level))
    return nullptr;
  auto listening = std::make_unique<Listening>();
  listening->plain_types = members(plain_types);
  for (Ref& question : members(questions)) {
    const PyCFunction function = in_c(question.get());
    listening->questions.push_back({std::move(question), function});
  }
  listening->is_negated = {Ref::to(is_negated), in_c(bound_is_negated)};
  listening->variables = Ref::to(variables);
  listening->level = Ref::to(level);
  int last = -1;
  for (const Ref& position : members(floats)) {
    const long at = PyLong_AsLong(position.get());
    if (PyErr_Occurred()) return nullptr;
    if (at <= last) return PyErr_Format(PyExc_ValueError, "expected positions that ascend");
    listening->floats.push_back(last = int(at));
  }
  static PyMethodDef function = method("quiet", quiet);
  return bind(function, own(std::move(listening))).release();
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

}  // namespace gradplan
