// Recipes by the call that they are for: shapes and element types of tensors, and options.
//
// A program asks for the same recipe again and again, hence a look at the last one first: it spares
// the making and hashing of a key, which takes longer than all the rest.
#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <vector>

#include "functions.h"
#include "listening.h"
#include "tensors.h"

namespace gradplan {
namespace {

class Shapes {  // rank, element type and extents of tensors, one after the other
 public:
  bool add(const DLTensor& t) {
    if (used_ + 1 + size_t(t.ndim) > words_.size()) return false;
    words_[used_++] = int64_t(t.ndim) << 32 | int64_t(t.dtype.code) << 16 | t.dtype.bits;
    std::copy_n(t.shape, t.ndim, words_.data() + used_);
    used_ += size_t(t.ndim);
    return true;
  }
  std::span<const int64_t> words() const { return {words_.data(), used_}; }

 private:
  std::array<int64_t, 64> words_;
  size_t used_ = 0;
};

struct Call {
  Shapes shapes;
  PyObject* const* options;
};

struct Found {
  std::vector<int64_t> shapes;
  std::vector<Ref> options;
  Ref recipe;
};

struct Table {
  static constexpr const char* kName = "gradplan.torch.table";

  Ref quiet;  // keeps `listening`
  const Listening* listening;
  Tensors tensors;
  int inputs, options;
  Py_ssize_t limit;
  Ref recipes;  // a dictionary
  Found last;
};

// 0.0 equals -0.0, which is a different weight.
bool is_zero(PyObject* option) {
  return Py_TYPE(option) == &PyFloat_Type && PyFloat_AsDouble(option) == 0;
}

// A no may be wrong: then the dictionary knows.
bool is_same(PyObject* a, PyObject* b) {
  if (a == b) return true;
  const bool number = Py_TYPE(a) == &PyFloat_Type || Py_TYPE(a) == &PyLong_Type;
  return number && Py_TYPE(a) == Py_TYPE(b) && !is_zero(a) &&
         PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

bool is_like_last(const Table& table, const Call& call) {
  return table.last.recipe && std::ranges::equal(table.last.shapes, call.shapes.words()) &&
         std::equal(table.last.options.begin(), table.last.options.end(), call.options,
                    [](const Ref& a, PyObject* b) { return is_same(a.get(), b); });
}

bool look_at(const Table& table, PyObject* const* arguments, Call& call) {
  for (int i = 0; i < table.inputs; ++i) {
    DLTensor seen;
    if (!table.tensors.look_at(arguments[i], seen) || seen.device.device_type != kDLCPU ||
        !call.shapes.add(seen)) {
      PyErr_Clear();
      return false;
    }
  }
  call.options = arguments + table.inputs;
  return true;
}

Ref key_of(const Table& table, const Call& call) {
  const auto words = call.shapes.words();
  Ref key(PyTuple_New(1 + table.options));
  Ref shapes(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words.data()),
                                       Py_ssize_t(words.size_bytes())));
  if (!key || !shapes || PyTuple_SetItem(key.get(), 0, shapes.release()) < 0) return Ref();
  for (int i = 0; i < table.options; ++i) {
    PyObject* const option = call.options[i];
    Ref member = is_zero(option) ? Ref(PyObject_Str(option)) : Ref::to(option);
    if (!member || PyTuple_SetItem(key.get(), 1 + i, member.release()) < 0) return Ref();
  }
  return key;
}

PyObject* recipe_for(Table& table, const Call& call) try {
  if (is_like_last(table, call)) return Ref::to(table.last.recipe.get()).release();
  Ref key = key_of(table, call);
  Ref recipe = Ref::to(key ? PyDict_GetItemWithError(table.recipes.get(), key.get()) : nullptr);
  if (!recipe) {
    PyErr_Clear();  // an option that cannot be hashed is for others to refuse
    Py_RETURN_NONE;
  }
  const auto words = call.shapes.words();
  Found found{{words.begin(), words.end()}, {}, Ref::to(recipe.get())};
  for (int i = 0; i < table.options; ++i) found.options.push_back(Ref::to(call.options[i]));
  std::swap(table.last, found);
  return recipe.release();
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

// The table, for a call with that many arguments; or an error.
Table* table_for(PyObject* self, Py_ssize_t count, int more = 0) {
  auto* table = bound_to<Table>(self);
  if (table == nullptr || count == table->inputs + table->options + more) return table;
  PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd",
               table->inputs + table->options + more, count);
  return nullptr;
}

// find(*arguments): the recipe, or None.
PyObject* find(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  Table* const table = table_for(self, count);
  if (table == nullptr) return nullptr;
  Call call;
  if (look_at(*table, given, call)) return recipe_for(*table, call);
  Py_RETURN_NONE;
}

// enter(*arguments): the same, and False if the dispatcher has to see the call.
PyObject* enter(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  Table* const table = table_for(self, count);
  if (table == nullptr) return nullptr;
  Call call;
  if (!table->listening->anybody(given, table->inputs) && look_at(*table, given, call))
    return recipe_for(*table, call);
  Py_RETURN_FALSE;
}

// add(recipe, *arguments); tensors that are not in the CPU's memory are left out.
PyObject* add(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  Table* const table = table_for(self, count, 1);
  if (table == nullptr) return nullptr;
  Call call;
  if (!look_at(*table, given + 1, call)) Py_RETURN_NONE;
  Ref key = key_of(*table, call);
  if (!key) return nullptr;
  if (PyDict_Size(table->recipes.get()) >= table->limit) PyDict_Clear(table->recipes.get());
  if (PyDict_SetItem(table->recipes.get(), key.get(), given[0]) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* clear(PyObject* self, PyObject* const*, Py_ssize_t) {
  auto* const table = bound_to<Table>(self);
  if (table == nullptr) return nullptr;
  PyDict_Clear(table->recipes.get());
  Found none;
  std::swap(table->last, none);
  Py_RETURN_NONE;
}

}  // namespace

PyObject* make_table(PyObject*, PyObject* arguments) try {
  PyObject *tensor_type, *quiet;
  auto table = std::make_unique<Table>();
  if (!PyArg_ParseTuple(arguments, "O!O!iin", &PyType_Type, &tensor_type, &PyCFunction_Type, &quiet,
                        &table->inputs, &table->options, &table->limit) ||
      !Tensors::of(tensor_type, table->tensors))
    return nullptr;
  table->quiet = Ref::to(quiet);
  table->listening = bound_to<const Listening>(PyCFunction_GetSelf(quiet));
  table->recipes = Ref(PyDict_New());
  if (table->listening == nullptr || !table->recipes) return nullptr;
  const auto& floats = table->listening->floats;
  if (!floats.empty() && floats.back() >= table->inputs)
    return PyErr_Format(PyExc_ValueError, "expected at least %d tensors", floats.back() + 1);
  const Ref owned = own(std::move(table));
  static PyMethodDef methods[] = {method("find", find), method("enter", enter), method("add", add),
                                  method("clear", clear)};
  Ref functions(PyTuple_New(std::size(methods)));
  if (!functions) return nullptr;
  for (size_t i = 0; i < std::size(methods); ++i) {
    Ref function = bind(methods[i], owned);
    if (!function || PyTuple_SetItem(functions.get(), Py_ssize_t(i), function.release()) < 0)
      return nullptr;
  }
  return functions.release();
} catch (const std::bad_alloc&) {
  return PyErr_NoMemory();
}

}  // namespace gradplan
