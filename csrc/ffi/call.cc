#include "ffi/call.h"

#include <map>

namespace gradplan::ffi {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::PackedArgs;
using tvm::ffi::String;

const DLTensor* tensor_argument(const std::string& plan, const std::string& name,
                                AnyView argument) {
  if (auto t = argument.try_cast<DLTensor*>()) return *t;
  throw PlanError("InvalidProblem", plan + ": tensor '" + name + "': expected a tensor, got " +
                                        argument.GetTypeKey());
}

}  // namespace

std::shared_ptr<CallContract> contract_of(const std::string& plan, const Operands& operands) {
  auto contract = std::make_shared<CallContract>();
  contract->plan = plan;
  std::map<std::string, int> slot;
  for (const Array<Any>& o : operands) {
    TensorContract t;
    t.name = o[0].cast<String>();
    const std::string role = o[1].cast<String>();
    t.role = role == "in" ? Role::kInput : role == "out" ? Role::kOutput : Role::kInOut;
    for (const String& d : o[2].cast<Array<String>>()) t.dtypes.push_back(dtype_from_name(d));
    for (int64_t extent : o[3].cast<Array<int64_t>>()) t.shape.push_back(extent);
    t.packed_stride.resize(t.shape.size());
    int64_t stride = 1;
    for (int d = int(t.shape.size()) - 1; d >= 0; --d) {
      t.packed_stride[d] = stride;
      stride *= t.shape[d];
    }
    for (const String& other : o[4].cast<Array<String>>())
      if (auto found = slot.find(other); found != slot.end()) t.may_equal.push_back(found->second);
    t.optional = o.size() > 5 && o[5].cast<bool>();
    slot[t.name] = int(contract->tensors.size());
    contract->tensors.push_back(std::move(t));
  }
  if (contract->tensors.size() > kMaxTensors)
    throw PlanError("KernelError", contract->plan + ": too many tensors");
  return contract;
}

Call::Call(const CallContract& contract, PackedArgs args, bool merging) {
  const int count = int(contract.tensors.size());
  if (args.size() != count && args.size() != count + 1)
    throw PlanError("InvalidProblem", contract.plan + ": expected " + std::to_string(count) +
                                          " tensors and perhaps a workspace, got " +
                                          std::to_string(args.size()) + " arguments");
  const DLTensor* given[kMaxTensors];
  for (int i = 0; i < count; ++i) {
    const TensorContract& tensor = contract.tensors[i];
    const bool left_out = tensor.optional && is_none(args[i]);
    given[i] = left_out ? nullptr : tensor_argument(contract.plan, tensor.name, args[i]);
  }
  device_id = contract.check(given, operands, merging ? strides : nullptr);
  if (args.size() > count && !is_none(args[count])) use_workspace(contract, args[count]);
}

void Call::use_workspace(const CallContract& contract, AnyView given) {
  workspace = contract.check_workspace(operands, device_id,
                                       *tensor_argument(contract.plan, "workspace", given));
}

}  // namespace gradplan::ffi
