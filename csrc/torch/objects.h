// References to Python's objects.
//
// Only Python's stable interface is used, so that one build serves every version.
#pragma once
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
//
#include <utility>
#include <vector>

namespace gradplan {

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

inline std::vector<Ref> members(PyObject* tuple) {
  std::vector<Ref> all;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i)
    all.push_back(Ref::to(PyTuple_GetItem(tuple, i)));
  return all;
}

// New references behind `before` empty places; or an error.
inline Ref tuple_of(PyObject* const* objects, int count, int before = 0) {
  Ref tuple(PyTuple_New(before + count));
  for (int i = 0; tuple && i < count; ++i)
    if (PyTuple_SetItem(tuple.get(), before + i, Ref::to(objects[i]).release()) < 0) return Ref();
  return tuple;
}

}  // namespace gradplan
