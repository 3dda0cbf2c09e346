// PyTorch's tensors, known only by DLPack's exchange table: nothing of PyTorch is linked.
#pragma once
#include <dlpack/dlpack.h>

#include "objects.h"

namespace gradplan {

struct Tensors {
  Ref type;
  const DLPackExchangeAPI* api;

  static bool of(PyObject* type, Tensors& tensors);

  // As a kernel sees it; what has no memory (a batch of vmap, say) is refused.
  bool look_at(PyObject* tensor, DLTensor& seen) const {
    return PyObject_TypeCheck(tensor, reinterpret_cast<PyTypeObject*>(type.get())) &&
           api->dltensor_from_py_object_no_sync(tensor, &seen) == 0;
  }
};

inline bool Tensors::of(PyObject* type, Tensors& tensors) {
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

}  // namespace gradplan
