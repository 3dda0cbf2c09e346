// A plan on a GPU: one function that checks a call, finds the program for its layout and launches
// it.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "cuda/device.h"
#include "cuda/program.h"
#include "ffi/call.h"

namespace gradplan::cuda {
namespace {

using ffi::Call;
using ffi::CallContract;
using ffi::PlanError;
using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::Function;
using tvm::ffi::Map;
using tvm::ffi::PackedArgs;
using tvm::ffi::String;

constexpr size_t kWorkspaceAlignment = 256;
constexpr size_t kVectorAlignment = 16;  // what kernels mean by an aligned address
constexpr size_t kPrograms = 256;        // layouts that a plan remembers; with more it starts over

// ---- reports -----------------------------------------------------------------------------------

bool is_capturing(const Driver& driver, Stream stream) {
  int status = 0;
  return driver.cuStreamIsCapturing(stream, &status) != 0 || status != 0;
}

// Throws what kernels have found. They may still be writing it, so this waits for the device, but
// only if there is something to say; and a capture must not wait: it leaves that to the next call.
void raise_news(Device& device, Stream stream) {
  if (device.reports.with_news() == nullptr) return;
  {
    const Current current(device.driver, device.context);
    if (is_capturing(device.driver, stream)) return;
  }
  device.synchronize();
  if (Report* const report = device.reports.with_news()) report->raise();
}

// ---- a plan ------------------------------------------------------------------------------------

class Plan {
 public:
  Plan(std::string library, std::shared_ptr<const CallContract> contract, Function describe,
       Function explain)
      : library_(std::move(library)),
        contract_(std::move(contract)),
        describe_(std::move(describe)),
        explain_(std::move(explain)) {}

  // `workspace` is a tensor, a function that makes one of so many bytes, or None.
  void run(PackedArgs tensors, AnyView workspace, std::optional<Stream> given) {
    Call call(*contract_, tensors, false);
    Device& device = Device::at(library_, call.device_id);
    const Stream stream =
        given ? *given : static_cast<Stream>(TVMFFIEnvGetStream(kDLCUDA, call.device_id));
    raise_news(device, stream);
    const auto makes_it = workspace.as<Function>();
    if (!ffi::is_none(workspace) && !makes_it) call.use_workspace(*contract_, workspace);
    const auto program = find(device, call);
    Any made;  // memory of the framework's, which it gives to others in the order of the stream
    if (program->workspace_size > 0 && call.workspace == nullptr) {
      if (!makes_it)
        throw PlanError("WorkspaceTooSmall", contract_->plan + ": workspace: expected at least " +
                                                 std::to_string(contract_->workspace_size) +
                                                 " bytes, got none");
      made = (*makes_it)(contract_->workspace_size);
      call.use_workspace(*contract_, made);
    }
    const Current current(device.driver, device.context);
    try {
      program->launch(call.operands, call.workspace, stream);
    } catch (const PlanError& e) {
      throw PlanError(e.kind, contract_->plan + ": " + e.what());
    }
  }

 private:
  using Layout = std::vector<int64_t>;

  std::shared_ptr<const Program> find(Device& device, const Call& call) {
    const Layout layout = layout_of(call);
    {
      const std::shared_lock lock(mutex_);
      if (auto found = programs_.find(layout); found != programs_.end()) return found->second;
    }
    const auto described = describe_(described_layouts(call)).cast<Program::Described>();
    const Current current(device.driver, device.context);
    std::shared_ptr<const Program> made;
    try {
      made = std::make_shared<const Program>(device, described, explain());
    } catch (const PlanError& e) {
      throw PlanError(e.kind, contract_->plan + ": " + e.what());
    }
    const std::unique_lock lock(mutex_);
    if (programs_.size() >= kPrograms) programs_.clear();
    programs_[layout] = made;
    return made;
  }

  // The explanation outlives the plan: its kernels may run for longer.
  Report::Explain explain() const {
    return [explain = explain_](const std::vector<int64_t>& words) {
      const auto said = explain(Array<int64_t>(words.begin(), words.end())).cast<Array<String>>();
      throw PlanError(said[0], said[1]);
    };
  }

  static bool is_aligned(const ffi::Operand& t) {
    return reinterpret_cast<uintptr_t>(t.data) % kVectorAlignment == 0;
  }

  // A tensor without elements has no address, and is there all the same.
  bool is_there(const ffi::Operand& t) const { return t.shape != nullptr || t.data != nullptr; }

  // What a program depends on: the device, and of each tensor its type, alignment and strides.
  Layout layout_of(const Call& call) const {
    Layout layout{call.device_id};
    for (size_t i = 0; i < contract_->tensors.size(); ++i) {
      const ffi::Operand& t = call.operands[i];
      layout.push_back(is_there(t) ? int64_t(t.dtype) * 2 + is_aligned(t) : -1);
      layout.insert(layout.end(), t.stride, t.stride + t.rank);
    }
    return layout;
  }

  // The same for Python: None for a tensor that was left out.
  Array<Any> described_layouts(const Call& call) const {
    Array<Any> all;
    for (size_t i = 0; i < contract_->tensors.size(); ++i) {
      const ffi::Operand& t = call.operands[i];
      if (!is_there(t)) {
        all.push_back(Any(nullptr));
        continue;
      }
      all.push_back(Array<Any>{String(ffi::dtype_name(t.dtype)),
                               Array<int64_t>(t.stride, t.stride + t.rank), is_aligned(t)});
    }
    return all;
  }

  const std::string library_;
  const std::shared_ptr<const CallContract> contract_;
  const Function describe_, explain_;
  std::shared_mutex mutex_;
  std::map<Layout, std::shared_ptr<const Program>> programs_;
};

// Streams come as numbers from Python and as pointers from XLA.
std::optional<Stream> stream_from(AnyView given) {
  if (ffi::is_none(given)) return std::nullopt;
  if (auto handle = given.as<int64_t>()) return reinterpret_cast<Stream>(*handle);
  return static_cast<Stream>(given.cast<void*>());
}

// Two functions that run a plan. `run` takes the tensors, a workspace (see Plan::run) and a stream,
// which may be None: then it is the one that tvm_ffi knows for the device. `foreign` is for XLA:
// tensors, the workspace if the plan needs any, and the stream.
Map<String, Any> bind(const String& library, const String& plan, const ffi::Operands& operands,
                      int64_t device_id, int64_t workspace_size, const Function& describe,
                      const Function& explain) {
  return ffi::translate_errors([&]() -> Map<String, Any> {
    auto contract = ffi::contract_of(plan, operands);
    contract->device = kDLCUDA;
    contract->device_id = int(device_id);
    contract->workspace_alignment = kWorkspaceAlignment;
    if (workspace_size > 0)
      contract->workspace_size = workspace_size + int64_t(kWorkspaceAlignment);
    const int count = int(contract->tensors.size());
    auto bound = std::make_shared<Plan>(library, contract, describe, explain);
    const auto run = [bound, count](PackedArgs args, Any*) {
      ffi::translate_errors([&] {
        if (args.size() != count + 2)
          throw PlanError("KernelError", "expected tensors, a workspace and a stream");
        bound->run(args.Slice(0, count), args[count], stream_from(args[count + 1]));
      });
    };
    const auto foreign = [bound, count](PackedArgs args, Any*) {
      ffi::translate_errors([&] {
        const AnyView workspace = args.size() > count + 1 ? args[count] : AnyView(nullptr);
        bound->run(args.Slice(0, count), workspace, stream_from(args[args.size() - 1]));
      });
    };
    return {{"run", Function::FromPacked(run)},
            {"foreign", Function::FromPacked(foreign)},
            {"workspace_size", contract->workspace_size}};
  });
}

// ---- devices -----------------------------------------------------------------------------------

constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CU_DEVICE_ATTRIBUTE_*

// {"version": 12040, "devices": [[name, major, minor], ...]}, or Unsupported without a driver.
Map<String, Any> inquire(const String& library) {
  return ffi::translate_errors([&]() -> Map<String, Any> {
    const Driver& driver = Driver::in(library);
    int version = 0, count = 0;
    GRADPLAN_CUDA_CHECK(driver, cuDriverGetVersion, &version);
    GRADPLAN_CUDA_CHECK(driver, cuDeviceGetCount, &count);
    Array<Any> devices;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      int device, major, minor;
      char name[256] = "";
      GRADPLAN_CUDA_CHECK(driver, cuDeviceGet, &device, ordinal);
      GRADPLAN_CUDA_CHECK(driver, cuDeviceGetName, name, sizeof name, device);
      GRADPLAN_CUDA_CHECK(driver, cuDeviceGetAttribute, &major, kCapabilityMajor, device);
      GRADPLAN_CUDA_CHECK(driver, cuDeviceGetAttribute, &minor, kCapabilityMinor, device);
      devices.push_back(Array<Any>{String(name), major, minor});
    }
    return {{"version", version}, {"devices", devices}};
  });
}

// Waits for a device that plans have run on, and throws what its kernels have found.
void check(const String& library, int64_t device_id) {
  ffi::translate_errors([&] {
    Device& device = Device::at(library, int(device_id));
    device.synchronize();
    if (Report* const report = device.reports.with_news()) report->raise();
  });
}

}  // namespace
}  // namespace gradplan::cuda

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cuda_bind, gradplan::cuda::bind);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cuda_inquire, gradplan::cuda::inquire);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_cuda_check, gradplan::cuda::check);
