#include "memory/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "memory/cpu_quota.h"
#include "memory/openmp.h"
#include "memory/pause.h"

namespace gradplan::memory {
namespace {

using Clock = std::chrono::steady_clock;

// Kernels keep up to 200 KiB of lane states on the stack (scan/sweep.cc). The C library takes
// thread-local memory of all libraries out of a thread's stack, too. It is address space: pages
// that are never touched cost nothing.
constexpr size_t kStackBytes = 2 << 20;
constexpr size_t kKernelBytes = 512 << 10;

// How long a thread looks out for the next call, or for the last helper, before it sleeps. Waking
// one up takes about as long.
constexpr auto kSpin = std::chrono::microseconds(40);

// After a thread could not be made, nobody tries again for that long.
constexpr auto kRetry = std::chrono::seconds(1);

// A place for the work of one call. Its word says who may come: helpers that are inside, seats that
// are free, and whether a call has it at all.
struct alignas(64) Slot {
  std::atomic<uint32_t> word{0};
  void (*work)(void*) = nullptr;
  void* context = nullptr;
};

constexpr uint32_t kInside = 0xfff, kSeat = 0x1000, kSeats = 0xfff000, kTaken = 1u << 31;
constexpr int kMostHelpers = 0xfff;
constexpr int kSlots = 16;  // calls at once that get help; others work alone

Slot slots[kSlots];
std::atomic<uint32_t> calls{0};     // changes with every call; what idle threads wait for
std::atomic<int> workers{0};        // threads of the pool
std::atomic<bool> starting{false};  // somebody is making threads
std::atomic<uint32_t> forks{0};     // between the first process and this one
std::atomic<Clock::rep> no_room_at{0};

// All of it is made of atomics, is never destroyed and needs no lock: a call may go on while the
// process exits, and a child that was forked amid a call begins anew.
void after_fork_in_child() {
  for (Slot& slot : slots) slot.word.store(0, std::memory_order_relaxed);
  workers.store(0, std::memory_order_relaxed);
  starting.store(false, std::memory_order_relaxed);
  forks.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, after_fork_in_child);

bool spin_until(auto&& done) {
  const auto end = Clock::now() + kSpin;
  do {
    for (int k = 0; k < 16; ++k) {
      if (done()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

bool help(Slot& slot) {
  uint32_t seen = slot.word.load(std::memory_order_relaxed);
  do {
    if (!(seen & kSeats)) return false;
  } while (!slot.word.compare_exchange_weak(seen, seen - kSeat + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  slot.work(slot.context);
  // Nothing is left to take, so nobody else need come.
  seen = slot.word.load(std::memory_order_relaxed);
  while (!slot.word.compare_exchange_weak(seen, (seen & ~kSeats) - 1)) {
  }
  if ((seen & kInside) == 1) slot.word.notify_one();
  return true;
}

void* be_helpful(void*) {
  for (;;) {
    const uint32_t seen = calls.load(std::memory_order_acquire);
    bool helped = false;
    for (Slot& slot : slots) helped |= help(slot);
    if (helped) continue;
    const auto called = [&] { return calls.load(std::memory_order_acquire) != seen; };
    const bool spins = workers.load(std::memory_order_relaxed) < processors();
    if (!spins || !spin_until(called)) calls.wait(seen, std::memory_order_acquire);
  }
  return nullptr;
}

// Signals that are sent to the process are for the threads of the program. Those that a thread
// causes itself must not be blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t others;
    sigfillset(&others);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF})
      sigdelset(&others, own);
    pthread_sigmask(SIG_SETMASK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

bool start_thread(pthread_t* thread, bool joined, void* (*f)(void*), void* context) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const SignalsBlocked blocked;
  const bool started =
      pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
      pthread_attr_setdetachstate(
          &attributes, joined ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED) == 0 &&
      pthread_create(thread, &attributes, f, context) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

void start_workers(int wanted) {
  if (workers.load(std::memory_order_relaxed) >= wanted) return;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  const Clock::rep failed = no_room_at.load(std::memory_order_relaxed);
  if (failed != 0 && now - failed < Clock::duration(kRetry).count()) return;
  if (starting.exchange(true, std::memory_order_acquire)) return;
  while (workers.load(std::memory_order_relaxed) < wanted) {
    pthread_t thread;
    if (!start_thread(&thread, false, be_helpful, nullptr)) {
      no_room_at.store(now, std::memory_order_relaxed);
      break;
    }
    workers.fetch_add(1, std::memory_order_relaxed);
  }
  starting.store(false, std::memory_order_release);
}

Slot* take_slot() {
  for (Slot& slot : slots) {
    uint32_t free = 0;
    if (slot.word.load(std::memory_order_relaxed) == 0 &&
        slot.word.compare_exchange_strong(free, kTaken, std::memory_order_acquire))
      return &slot;
  }
  return nullptr;
}

void leave(Slot& slot) {
  slot.word.fetch_and(~kSeats, std::memory_order_relaxed);  // who is late need not come
  const auto alone = [&] { return !(slot.word.load(std::memory_order_acquire) & kInside); };
  if (!spin_until(alone)) {
    for (uint32_t seen; (seen = slot.word.load(std::memory_order_acquire)) & kInside;)
      slot.word.wait(seen, std::memory_order_acquire);
  }
  slot.word.store(0, std::memory_order_release);
}

}  // namespace

int processors() {
  static const int count = processors("");
  return count;
}

int processors(const std::string& root) {
  cpu_set_t allowed;
  const int cpus = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                       ? CPU_COUNT(&allowed)
                       : std::max(1, int(std::thread::hardware_concurrency()));
  // Part of a CPU is not enough for a thread: the system would stop all of them for the rest of
  // every period (100 ms), and a call that was in progress with them.
  const double quota = cpu_quota(root);
  return quota > 0 ? std::clamp(int(quota), 1, cpus) : cpus;
}

bool run_together(int helpers, void (*work)(void*), void* context) {
  const uint32_t before = forks.load(std::memory_order_relaxed);
  if (run_in_openmp(helpers, work, context)) return forks.load(std::memory_order_relaxed) == before;
  helpers = std::min(helpers, kMostHelpers);
  start_workers(helpers);
  helpers = std::min(helpers, workers.load(std::memory_order_relaxed));
  Slot* const slot = helpers > 0 ? take_slot() : nullptr;
  if (slot == nullptr) {
    work(context);
    return true;
  }
  slot->work = work;
  slot->context = context;
  slot->word.store(kTaken + helpers * kSeat, std::memory_order_release);
  calls.fetch_add(1);
  if (helpers == workers.load(std::memory_order_relaxed)) {
    calls.notify_all();
  } else {
    for (int k = 0; k < helpers; ++k) calls.notify_one();
  }
  work(context);
  if (forks.load(std::memory_order_relaxed) != before) return false;
  leave(*slot);
  return true;
}

bool run_on_new_stack(void (*f)(void*), void* context) {
  struct Start {
    void (*f)(void*);
    void* context;
  } start{f, context};
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    const Start& start = *static_cast<Start*>(given);
    start.f(start.context);
    return nullptr;
  };
  if (!start_thread(&thread, true, run, &start)) return false;
  pthread_join(thread, nullptr);
  return true;
}

bool has_room_on_stack() {
  // Stacks grow downwards. Asking for the bounds takes a while: once per thread.
  static thread_local const uintptr_t lowest = [] {
    pthread_attr_t attributes;
    void* address = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &address, &size);
      pthread_attr_destroy(&attributes);
    }
    return reinterpret_cast<uintptr_t>(address) + kKernelBytes;
  }();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >= lowest;
}

}  // namespace gradplan::memory
