#include "cache.h"

#include <algorithm>

namespace gradplan {
namespace {

PyObject* type_of(PyObject* x) { return reinterpret_cast<PyObject*>(Py_TYPE(x)); }

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

// Types as well: True equals 1 and 1.0.
Ref key_of(const Call& call) {
  const auto shapes = call.shapes();
  Ref key(PyTuple_New(Py_ssize_t(1 + 2 * call.options().size())));
  Ref words(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(shapes.data()),
                                      Py_ssize_t(shapes.size_bytes())));
  if (!key || !words || PyTuple_SetItem(key.get(), 0, words.release()) < 0) return Ref();
  Py_ssize_t at = 0;
  for (PyObject* option : call.options()) {
    Ref value = is_zero(option) ? Ref(PyObject_Str(option)) : Ref::to(option);
    if (!value || PyTuple_SetItem(key.get(), ++at, Ref::to(type_of(option)).release()) < 0 ||
        PyTuple_SetItem(key.get(), ++at, value.release()) < 0)
      return Ref();
  }
  return key;
}

}  // namespace

bool Call::add(const DLTensor& t) {
  if (t.device.device_type != kDLCPU || used_ + 1 + size_t(t.ndim) > words_.size()) return false;
  words_[used_++] = int64_t(t.ndim) << 48 | int64_t(t.device.device_type & 0xff) << 40 |
                    int64_t(t.device.device_id & 0xffff) << 24 | int64_t(t.dtype.code) << 16 |
                    t.dtype.bits;
  std::copy_n(t.shape, t.ndim, words_.data() + used_);
  used_ += size_t(t.ndim);
  return true;
}

bool Call::add_none() {
  if (used_ == words_.size()) return false;
  words_[used_++] = -1;  // no tensor's first word: these are not negative
  return true;
}

bool Call::has_plain_options() const {
  return std::ranges::all_of(options_, [](PyObject* option) {
    PyTypeObject* const type = Py_TYPE(option);
    return type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
           type == &PyUnicode_Type || option == Py_None;
  });
}

bool Cache::make(Py_ssize_t limit) {
  limit_ = limit;
  launches_ = Ref(PyDict_New());
  return bool(launches_);
}

bool Cache::is_last(const Call& call) const {
  return last_.launch && std::ranges::equal(last_.shapes, call.shapes()) &&
         std::ranges::equal(last_.options, call.options(),
                            [](const Ref& a, PyObject* b) { return is_same(a.get(), b); });
}

Ref Cache::find(const Call& call) {
  if (is_last(call)) return Ref::to(last_.launch.get());
  Ref key = key_of(call);
  Ref launch = Ref::to(key ? PyDict_GetItemWithError(launches_.get(), key.get()) : nullptr);
  if (!launch) {
    PyErr_Clear();
    return launch;
  }
  const auto shapes = call.shapes();
  Found found{{shapes.begin(), shapes.end()}, {}, Ref::to(launch.get())};
  for (PyObject* option : call.options()) found.options.push_back(Ref::to(option));
  std::swap(last_, found);
  return launch;
}

bool Cache::add(const Call& call, PyObject* launch) {
  Ref key = key_of(call);
  if (!key) return false;
  if (PyDict_Size(launches_.get()) >= limit_) clear();
  if (PyDict_SetItem(launches_.get(), key.get(), launch) < 0) return false;
  Found none;
  std::swap(last_, none);  // it may have been for the same call
  return true;
}

void Cache::clear() {
  Found none;
  std::swap(last_, none);
  PyDict_Clear(launches_.get());
}

}  // namespace gradplan
