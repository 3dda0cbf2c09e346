// The module gradplan.torch._launch.
#include "functions.h"

namespace {

PyMethodDef kMethods[] = {{"make_launch", gradplan::make_launch, METH_VARARGS, nullptr},
                          {"make_quiet", gradplan::make_quiet, METH_VARARGS, nullptr},
                          {"make_table", gradplan::make_table, METH_VARARGS, nullptr},
                          {nullptr, nullptr, 0, nullptr}};
PyModuleDef_Slot kSlots[] = {{0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "_launch",
                       "What small calls with PyTorch's tensors go through.",
                       0,
                       kMethods,
                       kSlots,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__launch() { return PyModuleDef_Init(&kModule); }
