#include "ffi/python_lock.h"

#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <atomic>

namespace gradplan::ffi {
namespace {

// Functions of Python's. Python tells where they are: whether the linker would find them depends on
// how it was built.
struct PythonFunctions {
  int (*holds_lock)();     // PyGILState_Check
  void* (*release)();      // PyEval_SaveThread
  void (*acquire)(void*);  // PyEval_RestoreThread
  int (*check_signals)();  // PyErr_CheckSignals
};
std::atomic<const PythonFunctions*> python{nullptr};

void use_python(int64_t holds_lock, int64_t release, int64_t acquire, int64_t check_signals) {
  python.store(new PythonFunctions{reinterpret_cast<int (*)()>(holds_lock),
                                   reinterpret_cast<void* (*)()>(release),
                                   reinterpret_cast<void (*)(void*)>(acquire),
                                   reinterpret_cast<int (*)()>(check_signals)},
               std::memory_order_release);
}

// A thread that asks for the lock while Python exits never gets it: before 3.14 it is ended there
// and then, by unwinding its stack, and destructors of whoever called us would ask for the lock
// once more, which ends the process. So it stays here, as it does in Python 3.14.
void acquire(void* state) {
  try {
    python.load(std::memory_order_acquire)->acquire(state);
  } catch (...) {
    for (;;) ::pause();
  }
}

}  // namespace

PythonLockReleased::PythonLockReleased(bool release) {
  const PythonFunctions* const functions = python.load(std::memory_order_acquire);
  if (release && functions != nullptr && functions->holds_lock()) state_ = functions->release();
}

PythonLockReleased::~PythonLockReleased() {
  if (state_ != nullptr) acquire(state_);
}

bool PythonLockReleased::signals_raise() {
  if (state_ == nullptr || getpid() != gettid()) return false;  // handlers run on the main thread
  acquire(state_);
  const PythonFunctions& functions = *python.load(std::memory_order_acquire);
  const bool raised = functions.check_signals() != 0;
  state_ = functions.release();
  return raised;
}

}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_use_python, gradplan::ffi::use_python);
