// What the module offers; _launch.pyi says what they take.
#pragma once
#include "objects.h"

namespace gradplan {

PyObject* make_launch(PyObject* module, PyObject* arguments);
PyObject* make_quiet(PyObject* module, PyObject* arguments);
PyObject* make_table(PyObject* module, PyObject* arguments);

}  // namespace gradplan
