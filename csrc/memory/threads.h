// Threads and the floating-point environment: one parallel_for for every kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ffi/error.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gradplan::memory {

GP_SHARED int num_threads();            // what parallel_for may use
GP_SHARED void set_num_threads(int n);  // n >= 1

// Round to nearest, no flush to zero, exceptions masked, for the life of the object. What the
// caller had, sticky flags included, comes back.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) {
    if ((saved_ & ~0x3fu) != 0x1f80) _mm_setcsr(0x1f80);
  }
  ~FloatEnvironment() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ & ~0x0ull) asm volatile("msr fpcr, %0" ::"r"(0ull));
  }
  ~FloatEnvironment() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  uint64_t saved_;
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
};

// What a call that need not be finished asks between pieces, on the thread that called: whether to
// stop. parallel_for then throws Interrupted there, when no other thread is at work any more.
class GP_SHARED Interruption {
 public:
  Interruption();  // for the calls of parallel_for on this thread, for the life of the object
  virtual ~Interruption();
  Interruption(const Interruption&) = delete;
  bool stops();  // asks if it is time to

 private:
  virtual bool wanted() = 0;
  Interruption* outer_;
  int64_t next_;  // when to ask, in nanoseconds
};
struct GP_SHARED Interrupted {
  virtual ~Interrupted();
};

// For tasks that take long: throws Interrupted through the task if its call is to stop. Not for
// tasks that others wait for. It takes some 30 ns; kUninterrupted elements in between are plenty.
GP_SHARED void check_interruption();
constexpr int64_t kUninterrupted = 1 << 16;

using TaskFunction = void (*)(void* context, int64_t begin, int64_t end);
GP_SHARED void run_tasks(int64_t tasks, int64_t grain, int threads, TaskFunction f, void* context);

// Whoever has used streaming stores calls this before anybody else reads.
inline void stream_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Work below this many bytes is not worth waking a second thread (about 10 us of wake-up).
constexpr int64_t kSerialBytes = 1 << 18;

// A grain for work that goes through memory from one end to the other: where a thread leaves off
// and another goes on the prefetchers have guessed in vain, so pieces are large. Eight a thread are
// even enough; rows of 16 KiB in turns take 1.4 times as long.
inline int64_t long_grain(int64_t tasks, int64_t grain) {
  return std::max({int64_t{1}, grain, tasks / (8 * num_threads())});
}

// A piece moves no more than that, if it is more than one task: between pieces a call can be
// interrupted.
constexpr int64_t kLongPieceBytes = 1 << 24;

// Calls f(begin, end) over [0, tasks) on all threads, each piece at least `grain` tasks long unless
// that is very much, with the floating-point environment set. `bytes` is the memory that the whole
// moves. Pieces are handed out dynamically, in ascending order: results must not depend on the
// split. f throws nothing but
// Interrupted.
template <class F>
void parallel_for(int64_t tasks, int64_t grain, int64_t bytes, F&& f) {
  if (tasks <= 0) return;
  if (bytes < kSerialBytes) {
    FloatEnvironment environment;
    f(int64_t{0}, tasks);
    return;
  }
  const int64_t most =
      std::max(int64_t{1}, int64_t(double(tasks) * kLongPieceBytes / double(bytes)));
  grain = std::min(grain, most);
  const int64_t pieces = (tasks + grain - 1) / grain;
  const int threads = int(std::min<int64_t>(num_threads(), pieces));
  if (threads == 1) grain = most;
  run_tasks(
      tasks, grain, threads,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
      },
      &f);
}

}  // namespace gradplan::memory
