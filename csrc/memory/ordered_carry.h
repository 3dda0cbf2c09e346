// A value that is handed from task to task in order, whichever thread has which task.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "memory/pause.h"

namespace gradplan::memory {

// The tasks of a parallel_for are begun in ascending order, so the one that a thread waits for is
// being worked on.
template <class C>
class OrderedCarry {
 public:
  // Calls f(carry), which returns the next one, when all tasks before `task` have had their turn.
  template <class F>
  void take(int64_t task, F&& f) {
    for (int spins = 0; next_.load(std::memory_order_acquire) != task; ++spins)
      spins < 1000 ? pause() : std::this_thread::yield();
    carry_ = f(carry_);
    next_.store(task + 1, std::memory_order_release);
  }

 private:
  alignas(64) std::atomic<int64_t> next_{0};
  C carry_{};
};

}  // namespace gradplan::memory
