// Bound kernels under numbers.
//
// XLA calls a target with buffers and constants, and has room for about a thousand targets in a
// process (jax-tvm-ffi), fewer than a program may have problems. So there is one target per op, and
// a number, which is a digest of the problem, says which of its bound kernels a call means.
#include <pthread.h>
#include <tvm/ffi/tvm_ffi.h>

#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

namespace gradplan::ffi {
namespace {

struct Published {
  std::shared_mutex mutex;
  std::unordered_map<int64_t, tvm::ffi::Function> functions;
};

Published& published() {
  static auto* all = new Published;  // never destroyed: XLA's threads may outlive main
  return *all;
}

// Nobody publishes while the process forks, so a child finds the table whole.
[[maybe_unused]] const int fork_handlers = pthread_atfork(
    [] { published().mutex.lock(); }, [] { published().mutex.unlock(); },
    [] { new (&published().mutex) std::shared_mutex; });  // who locked it is another thread here

// Compiled programs keep the number for as long as they live, so nothing is ever taken back.
void publish(int64_t number, const tvm::ffi::Function& function) {
  std::unique_lock lock(published().mutex);
  published().functions.insert_or_assign(number, function);
}

tvm::ffi::Function find(int64_t number) {
  std::shared_lock lock(published().mutex);
  auto found = published().functions.find(number);
  if (found == published().functions.end())
    throw tvm::ffi::Error(
        "gradplan.KernelError",
        "no kernel is published under " + std::to_string(number) +
            ": a program that was compiled in another process must be traced again",
        "");
  return found->second;
}

// run(number, tensors...)
tvm::ffi::Function runner() {
  return tvm::ffi::Function::FromPacked([](tvm::ffi::PackedArgs args, tvm::ffi::Any* result) {
    find(args[0].cast<int64_t>()).CallPacked(args.Slice(1), result);
  });
}

}  // namespace
}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_publish, gradplan::ffi::publish);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_published_runner, gradplan::ffi::runner);
