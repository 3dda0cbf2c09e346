#include "memory/openmp.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "memory/thread_pool.h"

namespace gradplan::memory {
namespace {

// GCC's runtime, which PyTorch brings along.
using Parallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);
using InParallel = int (*)();
using Pause = int (*)(int);
constexpr int kPauseSoft = 1;

std::atomic<Parallel> parallel{nullptr};
InParallel in_parallel = nullptr;
Pause pause_all = nullptr;

// The others of the largest region that this thread has had: they wait for the next one.
thread_local int team = 0;

// Of a fork only the forking thread is left in the child. The runtime would wait there for threads
// that are gone, for ours and for PyTorch's operators alike; so it gives them up before.
void before_fork() {
  if (team > 0) pause_all(kPauseSoft);
  team = 0;
}

// The runtime ends the process if it cannot make its threads.
bool has_room_for(int threads) {
  std::vector<pthread_t> made;
  while (int(made.size()) < threads) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) != 0)
      break;
    made.push_back(thread);
  }
  for (pthread_t thread : made) pthread_join(thread, nullptr);  // until then it has its stack
  return int(made.size()) == threads;
}

// When a region has waited for its threads, our own serve until then: longer each time, and less so
// after many regions that have not.
constexpr int64_t kShortest = 2'000'000, kLongest = 1'000'000'000;  // nanoseconds
std::atomic<int64_t> not_before{0}, penalty{kShortest};

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// How long a region took, and its own work in that. The others may be in the middle of a piece when
// that is done, so some of the rest is not yet waiting.
void judge(int64_t took, int64_t worked) {
  const int64_t last = penalty.load(std::memory_order_relaxed);
  const bool waited = took - worked > 50'000 + worked;
  if (waited) not_before.store(now() + last, std::memory_order_relaxed);
  if (waited || last > kShortest)
    penalty.store(std::clamp(waited ? 4 * last : last - last / 64, kShortest, kLongest),
                  std::memory_order_relaxed);
}

struct Region {
  void (*work)(void*);
  void* context;
  pthread_t caller = pthread_self();
  int64_t worked = 0;

  void run() {
    if (pthread_equal(pthread_self(), caller)) {
      const int64_t begin = now();
      work(context);
      worked = now() - begin;
    } else if (has_room_on_stack()) {  // its stack may be as small as OMP_STACKSIZE says
      work(context);
    }
  }
};

}  // namespace

bool share_openmp() {
  if (parallel.load(std::memory_order_acquire) != nullptr) return true;
  const auto found = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  in_parallel = reinterpret_cast<InParallel>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
  pause_all = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  if (found == nullptr || in_parallel == nullptr || pause_all == nullptr) return false;
  if (pthread_atfork(before_fork, nullptr, nullptr) != 0) return false;
  parallel.store(found, std::memory_order_release);
  return true;
}

bool run_in_openmp(int helpers, void (*work)(void*), void* context) {
  const Parallel run = parallel.load(std::memory_order_acquire);
  if (run == nullptr || helpers < 1 || helpers >= processors() || in_parallel()) return false;
  const int64_t begin = now();
  if (begin < not_before.load(std::memory_order_relaxed)) return false;
  if (helpers > team) {
    if (!has_room_for(helpers)) return false;
    team = helpers;
  }
  Region region{work, context};
  run([](void* given) { static_cast<Region*>(given)->run(); }, &region, unsigned(helpers) + 1, 0);
  judge(now() - begin, region.worked);
  return true;
}

}  // namespace gradplan::memory
