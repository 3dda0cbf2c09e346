#include "memory/threads.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>

namespace gradplan::memory {
namespace {

std::atomic<int> requested{0};      // 0: as many as OpenMP finds
std::atomic<bool> orphaned{false};  // in a forked child

// Of the threads of an OpenMP runtime only the forking one survives, but libgomp does not know, and
// whether anybody (another build, PyTorch) has used it before cannot be found out: a parallel
// region might wait for ever.
void after_fork_in_child() { orphaned.store(true, std::memory_order_relaxed); }

const int fork_handler = pthread_atfork(nullptr, nullptr, after_fork_in_child);

}  // namespace

int num_threads() {
  if (orphaned.load(std::memory_order_relaxed)) return 1;
  const int n = requested.load(std::memory_order_relaxed);
  return n > 0 ? n : omp_get_num_procs();
}

void set_num_threads(int n) { requested.store(n, std::memory_order_relaxed); }

void run_tasks(int64_t tasks, int64_t grain, int threads, TaskFunction f, void* context) {
  (void)fork_handler;
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(threads)
  {
    FloatEnvironment environment;
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= tasks) break;
      f(context, begin, std::min(begin + grain, tasks));
    }
  }
}

}  // namespace gradplan::memory
