// Python's lock (the GIL) and its signals, for a library that is not compiled against Python.
#pragma once

#include "memory/threads.h"

namespace gradplan::ffi {

// Lets other threads of Python run for the life of the object, if this one holds the lock.
class PythonLockReleased {
 public:
  explicit PythonLockReleased(bool release);
  ~PythonLockReleased();
  PythonLockReleased(const PythonLockReleased&) = delete;

  // Runs Python's handlers of the signals that have come. True: one of them has raised.
  bool signals_raise();

 private:
  void* state_ = nullptr;
};

// Makes kernels on this thread ask for signals, if Python would handle them here.
class SignalInterruption final : public memory::Interruption {
 public:
  explicit SignalInterruption(PythonLockReleased& lock) : lock_(lock) {}
  bool raised() const { return raised_; }

 private:
  bool wanted() override { return raised_ = lock_.signals_raise(); }
  PythonLockReleased& lock_;
  bool raised_ = false;
};

}  // namespace gradplan::ffi
