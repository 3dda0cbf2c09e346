#include "memory/threads.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "memory/thread_pool.h"

namespace gradplan::memory {
namespace {

std::atomic<int> requested{0};  // 0: as many as there are processors
thread_local Interruption* interruption = nullptr;

constexpr int64_t kAskEvery = 50'000'000;  // nanoseconds

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Tasks that threads take from one another.
struct Tasks {
  const int64_t count, grain;
  const TaskFunction f;
  void* const context;
  std::atomic<int64_t> next{0};

  bool take() {
    const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= count) return false;
    f(context, begin, std::min(begin + grain, count));
    return true;
  }
};

// What one call of parallel_for is to its threads.
struct Region {
  Tasks& tasks;
  const pthread_t caller = pthread_self();
  Interruption* const asked = std::exchange(interruption, nullptr);  // not inside of a task
  std::atomic<bool> stopped = false;

  ~Region() { interruption = asked; }

  void check() {
    if (asked == nullptr) return;
    if (pthread_equal(caller, pthread_self()) && asked->stops())
      stopped.store(true, std::memory_order_relaxed);
    if (stopped.load(std::memory_order_relaxed)) throw Interrupted();
  }

  void work() {
    FloatEnvironment environment;
    Region* const outer = std::exchange(current, this);
    try {
      while (tasks.take()) check();
    } catch (const Interrupted&) {
      tasks.next.store(tasks.count, std::memory_order_relaxed);
    }
    current = outer;
  }

  static thread_local Region* current;  // that this thread works for
};

thread_local Region* Region::current = nullptr;

}  // namespace

int num_threads() {
  const int n = requested.load(std::memory_order_relaxed);
  return n > 0 ? n : processors();
}

void set_num_threads(int n) { requested.store(n, std::memory_order_relaxed); }

Interruption::Interruption()
    : outer_(std::exchange(interruption, this)), next_(now() + kAskEvery) {}

Interruption::~Interruption() { interruption = outer_; }

bool Interruption::stops() {
  if (now() < next_) return false;
  const pid_t process = getpid();
  const bool stop = wanted();
  next_ = now() + kAskEvery;
  // Whoever was asked may have forked. In the child nobody finishes what other threads have taken.
  return stop || getpid() != process;
}

Interrupted::~Interrupted() = default;

void check_interruption() {
  if (Region::current != nullptr) Region::current->check();
}

void run_tasks(int64_t count, int64_t grain, int threads, TaskFunction f, void* context) {
  Tasks tasks{count, threads > 1 || interruption != nullptr ? grain : count, f, context};
  Region region{tasks};
  const bool whole =
      run_together(threads - 1, [](void* given) { static_cast<Region*>(given)->work(); }, &region);
  if (region.stopped) throw Interrupted();
  if (!whole)
    throw ffi::PlanError("KernelError", "the process was forked inside of a call, by its thread");
}

}  // namespace gradplan::memory
