#include "dispatcher.h"

#include <algorithm>

namespace gradplan {
namespace {

bool is_no(const Ref& answer) {
  if (answer.get() == Py_False) return true;
  const bool no = answer && PyObject_IsTrue(answer.get()) == 0;
  if (!no) PyErr_Clear();
  return no;
}

bool is_idle(const Dispatcher::Variable& variable) {
  PyObject* const value = PyDict_GetItemWithError(variable.dictionary.get(), variable.name.get());
  const bool idle =
      value != nullptr && PyObject_RichCompareBool(value, variable.idle.get(), Py_EQ) == 1;
  if (!idle) PyErr_Clear();
  return idle;
}

}  // namespace

Dispatcher::Question Dispatcher::Question::of(PyObject* function) {
  const bool simple =
      Py_TYPE(function) == &PyCFunction_Type && PyCFunction_GetFlags(function) == METH_NOARGS;
  return {Ref::to(function), simple ? PyCFunction_GetFunction(function) : nullptr};
}

bool Dispatcher::Question::is_denied() const {
  return is_no(Ref(in_c != nullptr ? in_c(PyCFunction_GetSelf(function.get()), nullptr)
                                   : PyObject_CallNoArgs(function.get())));
}

bool Dispatcher::would_notice(PyObject* const* tensors, int count,
                              const std::vector<int>& floats) const {
  for (int i = 0; i < count; ++i) {
    if (tensors[i] == Py_None) continue;  // left out: nothing to notice
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensors[i]));
    if (std::ranges::none_of(plain_types, [&](const Ref& plain) { return plain.get() == type; }))
      return true;
  }
  for (const Question& question : questions)
    if (!question.is_denied()) return true;
  for (int i : floats)
    if (tensors[i] != Py_None && !is_no(Ref(is_negated.in_c(tensors[i], nullptr)))) return true;
  return !std::ranges::all_of(variables, is_idle);
}

int Dispatcher::recorded(PyObject* const* tensors, const std::vector<int>& floats) const {
  auto needs = [&](int i) {
    return tensors[i] != Py_None && !is_no(Ref(PyObject_GetAttr(tensors[i], requires_grad_.get())));
  };
  if (records.is_denied()) return 0;
  int count = int(floats.size());
  while (count > 0 && !needs(floats[count - 1])) --count;
  return count;
}

bool Dispatcher::parse(PyObject* described, Dispatcher& dispatcher) {
  PyObject *plain_types, *questions, *variables, *is_negated, *records;
  if (!PyArg_ParseTuple(described, "O!O!O!OO", &PyTuple_Type, &plain_types, &PyTuple_Type,
                        &questions, &PyTuple_Type, &variables, &is_negated, &records))
    return false;
  dispatcher.plain_types = members(plain_types);
  for (const Ref& question : members(questions))
    dispatcher.questions.push_back(Question::of(question.get()));
  dispatcher.is_negated = Question::of(is_negated);
  dispatcher.records = Question::of(records);
  if (dispatcher.is_negated.in_c == nullptr) {
    PyErr_SetString(PyExc_TypeError, "expected a tensor's own method, without arguments");
    return false;
  }
  for (const Ref& variable : members(variables)) {
    PyObject *dictionary, *name, *idle;
    if (!PyArg_ParseTuple(variable.get(), "O!UO", &PyDict_Type, &dictionary, &name, &idle))
      return false;
    dispatcher.variables.push_back({Ref::to(dictionary), Ref::to(name), Ref::to(idle)});
  }
  dispatcher.requires_grad_ = Ref(PyUnicode_InternFromString("requires_grad"));
  return bool(dispatcher.requires_grad_);
}

}  // namespace gradplan
