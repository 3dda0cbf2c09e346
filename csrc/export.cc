// The library's interface: a plan binds a kernel once and gets a function that checks and runs a
// call.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <new>

#include "contract.h"
#include "elementary.h"
#include "parallel.h"

namespace ffi = tvm::ffi;

namespace gradplan {
namespace {

const std::map<std::string, KernelDefinition>& kernels() {
  static const auto* all = [] {
    auto* table = new std::map<std::string, KernelDefinition>;
    for (auto family :
         {scan_kernels, segment_kernels, embedding_kernels, lerp_kernels, sparsemax_kernels})
      for (KernelDefinition& k : family()) table->emplace(k.name, k);
    return table;
  }();
  return *all;
}

// Errors carry no C++ backtrace: the Python one ends at the user's call, which is where to look.
[[noreturn]] void rethrow(const PlanError& e) {
  throw ffi::Error("gradplan." + e.kind, e.what(), "");
}

template <class F>
auto translate_errors(F&& f) {
  try {
    return f();
  } catch (const PlanError& e) {
    rethrow(e);
  } catch (const std::bad_alloc&) {
    throw ffi::Error("MemoryError", "gradplan: out of memory", "");
  }
}

Attribute attribute_from(const ffi::Any& value) {
  if (auto text = value.try_cast<ffi::String>()) return std::string(*text);
  if (auto integer = value.as<int64_t>()) return *integer;
  if (auto flag = value.as<bool>()) return int64_t{*flag};
  return value.cast<double>();
}

constexpr size_t kWorkspaceAlignment = 64;

// The caller's workspace, or one of our own for the time of the call.
class Workspace {
 public:
  Workspace(const std::string& plan, int64_t needed, const DLTensor* given) {
    if (given != nullptr) {
      use(plan, needed, *given);
    } else if (needed > 0) {
      const size_t size = (size_t(needed) + kWorkspaceAlignment - 1) / kWorkspaceAlignment;
      owned_.reset(std::aligned_alloc(kWorkspaceAlignment, size * kWorkspaceAlignment));
      if (!owned_) throw std::bad_alloc();
      data_ = static_cast<char*>(owned_.get());
    }
  }
  char* data() const { return data_; }

 private:
  void use(const std::string& plan, int64_t needed, const DLTensor& given) {
    if (given.device.device_type != kDLCPU)
      throw PlanError("Unsupported", plan + ": workspace: expected a CPU tensor");
    int64_t bytes = given.dtype.bits / 8 * given.dtype.lanes;
    for (int d = given.ndim - 1; d >= 0; --d) {
      if (given.strides != nullptr && given.shape[d] > 1 &&
          given.strides[d] * (given.dtype.bits / 8 * given.dtype.lanes) != bytes)
        throw PlanError("InvalidProblem", plan + ": workspace: expected a contiguous tensor");
      bytes *= given.shape[d];
    }
    const auto address = reinterpret_cast<uintptr_t>(given.data) + given.byte_offset;
    const uintptr_t pad = needed > 0 ? -address % kWorkspaceAlignment : 0;
    if (bytes < needed)
      throw PlanError("WorkspaceTooSmall", plan + ": workspace: expected at least " +
                                               std::to_string(needed) + " bytes, got " +
                                               std::to_string(bytes));
    // workspace_size leaves room for this shift (see bind).
    data_ = reinterpret_cast<char*>(address + pad);
  }

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> owned_;
  char* data_ = nullptr;
};

const DLTensor* tensor_argument(const std::string& plan, const std::string& name,
                                ffi::AnyView argument) {
  if (auto t = argument.try_cast<DLTensor*>()) return *t;
  throw PlanError("InvalidProblem", plan + ": tensor '" + name + "': expected a tensor, got " +
                                        argument.GetTypeKey());
}

bool is_none(ffi::AnyView argument) { return argument.type_index() == ffi::TypeIndex::kTVMFFINone; }

// The function that checks and runs a call.
ffi::Function make_run(std::shared_ptr<const CallContract> contract, Launch launch, bool merging) {
  return ffi::Function::FromPacked([contract, launch, merging](ffi::PackedArgs args, ffi::Any*) {
    translate_errors([&] {
      const int count = int(contract->tensors.size());
      if (args.size() != count && args.size() != count + 1)
        throw PlanError("InvalidProblem", contract->plan + ": expected " + std::to_string(count) +
                                              " tensors and perhaps a workspace, got " +
                                              std::to_string(args.size()) + " arguments");
      const DLTensor* given[kMaxTensors];
      Operand checked[kMaxTensors];
      MergedStrides strides[kMaxTensors];
      for (int i = 0; i < count; ++i) {
        const TensorContract& tensor = contract->tensors[i];
        const bool left_out = tensor.dispensable && is_none(args[i]);
        given[i] = left_out ? nullptr : tensor_argument(contract->plan, tensor.name, args[i]);
      }
      contract->check(given, checked, merging ? strides : nullptr);
      const bool own = args.size() == count || is_none(args[count]);
      const DLTensor* workspace =
          own ? nullptr : tensor_argument(contract->plan, "workspace", args[count]);
      if (!own) contract->check_workspace(checked, *workspace);
      Workspace scratch(contract->plan, contract->workspace_size, workspace);
      launch(checked, scratch.data());
    });
  });
}

// Returns the function, one that merges the axes of tensors (see CallContract), and the bytes of
// workspace.
ffi::Array<ffi::Any> bind(const ffi::String& kernel, const ffi::String& plan,
                          const ffi::Array<ffi::Array<ffi::Any>>& operands,
                          const ffi::Map<ffi::String, ffi::Any>& attributes) {
  return translate_errors([&] {
    auto found = kernels().find(std::string(kernel));
    if (found == kernels().end())
      throw PlanError("Unsupported",
                      std::string(plan) + ": no kernel named " + std::string(kernel));
    auto contract = std::make_shared<CallContract>();
    Problem problem;
    contract->plan = problem.plan = plan;
    for (const ffi::Array<ffi::Any>& o : operands) {
      TensorContract t;
      t.name = o[0].cast<ffi::String>();
      const std::string role = o[1].cast<ffi::String>();
      t.role = role == "in" ? Role::kInput : role == "out" ? Role::kOutput : Role::kInOut;
      for (const ffi::String& d : o[2].cast<ffi::Array<ffi::String>>())
        t.dtypes.push_back(dtype_from_name(d));
      for (int64_t extent : o[3].cast<ffi::Array<int64_t>>()) t.shape.push_back(extent);
      t.packed_stride.resize(t.shape.size());
      int64_t stride = 1;
      for (int d = int(t.shape.size()) - 1; d >= 0; --d) {
        t.packed_stride[d] = stride;
        stride *= t.shape[d];
      }
      for (const ffi::String& other : o[4].cast<ffi::Array<ffi::String>>()) {
        const int at = problem.at(other);
        if (at >= 0) t.may_equal.push_back(at);
      }
      problem.slot[t.name] = int(problem.name.size());
      problem.name.push_back(t.name);
      problem.shape.push_back(t.shape);
      problem.dtypes.push_back(t.dtypes);
      contract->tensors.push_back(std::move(t));
    }
    if (contract->tensors.size() > kMaxTensors)
      throw PlanError("KernelError", contract->plan + ": too many tensors");
    for (auto [key, value] : attributes) problem.attributes[key] = attribute_from(value);
    BoundKernel bound = found->second.bind(problem);
    const int64_t workspace =
        bound.workspace_size == 0 ? 0 : bound.workspace_size + int64_t(kWorkspaceAlignment);
    contract->workspace_size = workspace;
    for (int i : bound.dispensable) contract->tensors[i].dispensable = true;
    return ffi::Array<ffi::Any>{make_run(contract, bound.launch, false),
                                make_run(contract, bound.launch, true), workspace};
  });
}

ffi::Map<ffi::String, ffi::Array<ffi::Array<ffi::String>>> signatures() {
  ffi::Map<ffi::String, ffi::Array<ffi::Array<ffi::String>>> all;
  auto strings = [](const std::vector<std::string>& from) {
    ffi::Array<ffi::String> to;
    for (const std::string& s : from) to.push_back(ffi::String(s));
    return to;
  };
  for (const auto& [name, k] : kernels())
    all.Set(name, {strings(k.tensors), strings(k.attributes)});
  return all;
}

// NumPy does not export bfloat16: it hands over the same memory as uint16.
ffi::Tensor as_bfloat16(const ffi::Tensor& words) {
  struct Borrow {
    ffi::Tensor owner;
    void AllocData(DLTensor* t) {
      t->data = const_cast<void*>(owner.data_ptr());
      t->byte_offset = owner.GetDLTensorPtr()->byte_offset;
    }
    void FreeData(DLTensor*) {}
  };
  const DLTensor* t = words.GetDLTensorPtr();
  if (t->dtype.bits != 16)
    throw ffi::Error("gradplan.KernelError", "as_bfloat16: expected 16-bit elements", "");
  const DLDataType bfloat16{kDLBfloat, 16, 1};
  if (t->ndim == 0)  // which has no strides to pass on
    return ffi::Tensor::FromNDAlloc(Borrow{words}, words.shape(), bfloat16, t->device);
  return ffi::Tensor::FromNDAllocStrided(Borrow{words}, words.shape(), words.strides(), bfloat16,
                                         t->device);
}

// exp and log on their own, so that tests can compare them with the reference.
void elementary(const ffi::String& name, ffi::TensorView x, ffi::TensorView y) {
  FloatEnvironment environment;
  const bool is_exp = std::string(name) == "exp";
  const int64_t n = x.numel();
  auto apply = [&](auto* in, auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const auto v = Lanes<T>::load(in + i);
      (is_exp ? gp_exp(v) : gp_log(v)).store(out + i);
    }
    for (; i < n; ++i) out[i] = is_exp ? gp_exp(in[i]) : gp_log(in[i]);
  };
  if (x.dtype().bits == 32)
    apply(static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()));
  else
    apply(static_cast<const double*>(x.data_ptr()), static_cast<double*>(y.data_ptr()));
}

// The yardstick of the benchmark: memcpy on all threads.
void parallel_copy(ffi::TensorView from, ffi::TensorView to) {
  const int64_t bytes = from.numel() * from.dtype().bits / 8, piece = 1 << 20;
  if (bytes != to.numel() * to.dtype().bits / 8 || !from.IsContiguous() || !to.IsContiguous())
    throw ffi::Error("gradplan.InvalidProblem", "copy: expected contiguous tensors of one size",
                     "");
  parallel_for((bytes + piece - 1) / piece, 1, bytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to.data_ptr()) + begin * piece,
                static_cast<const char*>(from.data_ptr()) + begin * piece,
                std::min(end * piece, bytes) - begin * piece);
  });
}

ffi::String isa() { return GRADPLAN_ISA; }

}  // namespace
}  // namespace gradplan

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_bind, gradplan::bind);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_signatures, gradplan::signatures);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_as_bfloat16, gradplan::as_bfloat16);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_copy, gradplan::parallel_copy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_elementary, gradplan::elementary);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_set_num_threads, gradplan::set_num_threads);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_get_num_threads, gradplan::num_threads);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gradplan_isa, gradplan::isa);
