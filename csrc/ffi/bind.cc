// A plan binds a kernel once and gets a function that checks and runs a call.
#include "ffi/bind.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>

#include "ffi/call.h"
#include "ffi/large_pages.h"
#include "ffi/python_lock.h"
#include "memory/thread_pool.h"

namespace gradplan::ffi {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::Function;
using tvm::ffi::Map;
using tvm::ffi::PackedArgs;
using tvm::ffi::String;

// ---- a call ------------------------------------------------------------------------------------

// Memory for the time of a call.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    if (bytes == 0) return;
    const size_t units = (size_t(bytes) + kWorkspaceAlignment - 1) / kWorkspaceAlignment;
    owned_.reset(std::aligned_alloc(kWorkspaceAlignment, units * kWorkspaceAlignment));
    if (!owned_) throw std::bad_alloc();
  }
  char* data() const { return static_cast<char*>(owned_.get()); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> owned_;
};

// Calls f here or, if this thread's stack is too small for a kernel, on another one.
template <class F>
void with_stack(F&& f) {
  if (memory::has_room_on_stack()) return f();
  struct Elsewhere {
    F& f;
    std::exception_ptr error;
  } elsewhere{f, nullptr};
  const bool ran = memory::run_on_new_stack(
      [](void* context) {
        auto& self = *static_cast<Elsewhere*>(context);
        try {
          self.f();
        } catch (...) {
          self.error = std::current_exception();
        }
      },
      &elsewhere);
  if (!ran) throw std::bad_alloc();
  if (elsewhere.error) std::rethrow_exception(elsewhere.error);
}

// What a function that runs a kernel may do.
struct Manners {
  bool merges = false;    // takes tensors whose axes are yet to be merged
  bool releases = false;  // lets go of Python's lock
  bool discards = false;  // leaves outputs unfinished when a signal's handler raises
  bool fresh = false;     // gets outputs that were just allocated, and not by us
};

Function make_run(std::shared_ptr<const CallContract> contract, Launch launch, Manners manners) {
  return Function::FromPacked([contract, launch, manners](PackedArgs args, Any*) {
    translate_errors([&] {
      const Call call(*contract, args, manners.merges);
      if (manners.fresh) use_large_pages(*contract, call.operands);
      const Scratch own(call.workspace ? 0 : contract->workspace_size);
      PythonLockReleased lock(manners.releases);
      std::optional<SignalInterruption> signals;
      if (manners.releases && manners.discards) signals.emplace(lock);
      try {
        with_stack([&] { launch(call.operands, call.workspace ? call.workspace : own.data()); });
      } catch (const memory::Interrupted&) {
        if (signals->raised()) throw tvm::ffi::EnvErrorAlreadySet();
        throw PlanError("KernelError", contract->plan + ": a signal handler forked inside of it");
      }
    });
  });
}

// ---- a plan ------------------------------------------------------------------------------------

AttributeValue attribute_from(const Any& value) {
  if (auto text = value.try_cast<String>()) return std::string(*text);
  if (auto integer = value.as<int64_t>()) return *integer;
  if (auto flag = value.as<bool>()) return int64_t{*flag};
  return value.cast<double>();
}

Problem problem_of(const CallContract& contract, const Map<String, Any>& attributes) {
  Problem problem;
  problem.plan = contract.plan;
  for (const TensorContract& t : contract.tensors) {
    problem.slot[t.name] = int(problem.shape.size());
    problem.shape.push_back(t.shape);
    problem.dtypes.push_back(t.dtypes);
  }
  for (auto [key, value] : attributes) problem.attributes[key] = attribute_from(value);
  return problem;
}

// Nothing is ever computed as something else: a word or an element type that the kernel does not
// list is refused here.
void check_implemented(const KernelDefinition& kernel, const Problem& problem) {
  const auto refuse = [&](const std::string& what) {
    throw PlanError("Unsupported", problem.plan + ": no kernel for " + kernel.name + what);
  };
  for (const Attribute& a : kernel.attributes) {
    if (a.words.empty()) continue;
    const std::string& given = problem.text(a.name);
    if (std::find(a.words.begin(), a.words.end(), given) == a.words.end())
      refuse(" with " + a.name + "='" + given + "'");
  }
  if (problem.dtypes.empty()) refuse(" without tensors");
  const Dtype element = problem.element();
  if (std::find(kernel.elements.begin(), kernel.elements.end(), element) == kernel.elements.end())
    refuse(std::string(" of ") + dtype_name(element));
}

Map<String, Any> bind_plan(const Kernels& kernels, const String& name, const String& plan,
                           const Operands& operands, const Map<String, Any>& attributes,
                           bool releases) {
  const auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const KernelDefinition& k) {
    return k.name == std::string(name);
  });
  if (kernel == kernels.end())
    throw PlanError("Unsupported", std::string(plan) + ": no kernel named " + std::string(name));
  auto contract = contract_of(plan, operands);
  const Problem problem = problem_of(*contract, attributes);
  check_implemented(*kernel, problem);
  BoundKernel bound = kernel->bind(problem);
  if (bound.workspace_size > 0)
    contract->workspace_size = bound.workspace_size + int64_t(kWorkspaceAlignment);
  for (int i : bound.dispensable) contract->tensors[i].optional = true;
  const auto made = [&](Manners manners) { return make_run(contract, bound.launch, manners); };
  return {{"run", made({.releases = releases})},
          {"discarding", made({.releases = releases, .discards = true})},
          {"merging", made({.merges = true, .releases = releases, .discards = true})},
          {"foreign", made({.fresh = true})},
          {"workspace_size", contract->workspace_size}};
}

// A function that makes the checks of a call and runs nothing, for engines that are not in C++ and
// for plans that ask. Outputs may be None: they need not be there yet.
Function checks(const String& plan, const Operands& operands, int64_t device_type,
                int64_t device_id) {
  return translate_errors([&] {
    auto contract = contract_of(plan, operands);
    contract->device = DLDeviceType(device_type);
    contract->device_id = int(device_id);
    for (TensorContract& t : contract->tensors) t.optional = t.optional || t.role != Role::kInput;
    return Function::FromPacked(
        [contract = std::shared_ptr<const CallContract>(contract)](PackedArgs args, Any*) {
          translate_errors([&] { Call(*contract, args, false); });
        });
  });
}

}  // namespace

int bind(const Kernels& kernels, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  const PackedArgs given(reinterpret_cast<const AnyView*>(args), count);
  *reinterpret_cast<Any*>(result) = translate_errors([&] {
    return bind_plan(kernels, given[0].cast<String>(), given[1].cast<String>(),
                     given[2].cast<Operands>(), given[3].cast<Map<String, Any>>(),
                     count > 4 && given[4].cast<bool>());
  });
  TVM_FFI_SAFE_CALL_END();
}

int signatures(const Kernels& kernels, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  const auto strings = [](const std::vector<std::string>& from) {
    Array<String> to;
    for (const std::string& s : from) to.push_back(String(s));
    return to;
  };
  Map<String, Map<String, Any>> all;
  for (const KernelDefinition& k : kernels) {
    Map<String, Array<String>> attributes;
    for (const Attribute& a : k.attributes) attributes.Set(a.name, strings(a.words));
    std::vector<std::string> elements;
    for (Dtype d : k.elements) elements.push_back(dtype_name(d));
    all.Set(k.name, {{"tensors", strings(k.tensors)},
                     {"attributes", attributes},
                     {"elements", strings(elements)}});
  }
  *reinterpret_cast<Any*>(result) = all;
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace gradplan::ffi

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_checks, gradplan::ffi::checks);
