// Python's objects as this module holds them, and functions that are bound to something of ours.
//
// Only Python's stable interface is used, so that one build serves every version.
#pragma once
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
//
#include <memory>
#include <utility>

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

// What a function is bound to: a T, in a capsule of the name T::kName.
template <class T>
T* bound_to(PyObject* self) {
  return static_cast<T*>(PyCapsule_GetPointer(self, T::kName));
}

template <class T>
Ref own(std::unique_ptr<T> bound) {
  Ref capsule(
      PyCapsule_New(bound.get(), T::kName, [](PyObject* self) { delete bound_to<T>(self); }));
  if (capsule) bound.release();
  return capsule;
}

// A function bound to what `own` gave.
inline Ref bind(PyMethodDef& function, const Ref& owned) {
  return Ref(owned ? PyCFunction_NewEx(&function, owned.get(), nullptr) : nullptr);
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
inline PyMethodDef method(const char* name, Fast function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL,
          nullptr};
}

}  // namespace gradplan
