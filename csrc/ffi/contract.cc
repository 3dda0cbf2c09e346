#include "ffi/contract.h"

#include <algorithm>

#include "ffi/overlap.h"

namespace gradplan::ffi {
namespace {

struct NamedDtype {
  const char* name;
  Dtype dtype;
  DLDataType dl;
};

constexpr NamedDtype kDtypes[] = {
    {"float16", Dtype::kF16, {kDLFloat, 16, 1}}, {"bfloat16", Dtype::kBF16, {kDLBfloat, 16, 1}},
    {"float32", Dtype::kF32, {kDLFloat, 32, 1}}, {"float64", Dtype::kF64, {kDLFloat, 64, 1}},
    {"int32", Dtype::kI32, {kDLInt, 32, 1}},     {"int64", Dtype::kI64, {kDLInt, 64, 1}},
};

bool matches(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::string describe(DLDataType d) {
  for (const NamedDtype& n : kDtypes)
    if (matches(n.dl, d)) return n.name;
  static const std::pair<int, const char*> codes[] = {
      {kDLInt, "int"},       {kDLUInt, "uint"},       {kDLFloat, "float"},
      {kDLBfloat, "bfloat"}, {kDLComplex, "complex"}, {kDLBool, "bool"}};
  for (auto [code, name] : codes)
    if (code == d.code) return name + (code == kDLBool ? "" : std::to_string(d.bits));
  return "DLPack type code " + std::to_string(d.code) + ", " + std::to_string(d.bits) + " bits";
}

std::string device_name(DLDeviceType type) {
  if (type == kDLCPU) return "CPU";
  if (type == kDLCUDA) return "GPU";
  return "device of DLPack type " + std::to_string(int(type));
}

// Memory that GPU and CPU share counts as the GPU's.
bool is_on(DLDevice found, DLDeviceType wanted) {
  return found.device_type == wanted || (wanted == kDLCUDA && found.device_type == kDLCUDAManaged);
}

std::string gpu_name(int id) { return "cuda:" + std::to_string(id); }

std::string describe(const int64_t* shape, int rank) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

[[noreturn]] void fail(const char* kind, const CallContract& contract, const TensorContract& tensor,
                       const std::string& expected, const std::string& got) {
  throw PlanError(kind, contract.plan + ": tensor '" + tensor.name + "': expected " + expected +
                            ", got " + got);
}

// The strides of `t` as a tensor of that shape on the same memory, if its axes merge into it.
bool merge_axes(const DLTensor& t, const Shape& shape, MergedStrides& strides) {
  if (shape.size() > strides.size()) return false;
  int64_t elements = 1;
  for (int d = 0; d < t.ndim; ++d) elements *= t.shape[d];
  if (elements != count_elements(shape)) return false;
  strides.fill(0);
  if (elements == 0) return true;
  std::vector<int64_t> packed;
  const int64_t* given = t.strides;
  if (given == nullptr) {
    packed.assign(t.ndim, 1);
    for (int d = t.ndim - 2; d >= 0; --d) packed[d] = packed[d + 1] * t.shape[d + 1];
    given = packed.data();
  }
  int d = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t extent = 1;
    strides[axis] = 1;
    for (; extent < shape[axis]; ++d) {  // the numbers of elements are equal: d stays in range
      if (t.shape[d] == 1) continue;
      if (extent > 1 && strides[axis] != given[d] * t.shape[d]) return false;
      extent *= t.shape[d];
      strides[axis] = given[d];
    }
    if (extent != shape[axis]) return false;
  }
  return true;
}

void check_tensor(const CallContract& contract, const TensorContract& want, const DLTensor& t,
                  Operand& out, MergedStrides* merged) {
  if (!is_on(t.device, contract.device)) {
    const std::string name = device_name(contract.device);
    fail("Unsupported", contract, want,
         "a " + name + " tensor (this plan runs on the " + name + ")",
         "one on DLPack device type " + std::to_string(t.device.device_type));
  }
  auto dtype = std::find_if(want.dtypes.begin(), want.dtypes.end(),
                            [&](Dtype d) { return matches(kDtypes[int(d)].dl, t.dtype); });
  if (dtype == want.dtypes.end()) {
    std::string names;
    for (Dtype d : want.dtypes) names += (names.empty() ? "" : " or ") + std::string(dtype_name(d));
    fail("InvalidProblem", contract, want, "element type " + names, describe(t.dtype));
  }
  const int rank = int(want.shape.size());
  const bool as_wanted =
      t.ndim == rank && std::equal(want.shape.begin(), want.shape.end(), t.shape);
  if (!as_wanted && !(merged != nullptr && merge_axes(t, want.shape, *merged))) {
    int64_t elements = 1;
    for (int d = 0; d < t.ndim; ++d) elements *= t.shape[d];
    fail(elements < count_elements(want.shape) ? "BufferTooSmall" : "InvalidProblem", contract,
         want, "shape " + describe(want.shape.data(), rank), "shape " + describe(t.shape, t.ndim));
  }
  char* data = static_cast<char*>(t.data) + t.byte_offset;
  if (t.data == nullptr && count_elements(want.shape) > 0)
    fail("InvalidProblem", contract, want, "a tensor with data", "one without");
  if (reinterpret_cast<uintptr_t>(data) % item_size(*dtype) != 0) {
    fail("MisalignedOperand", contract, want,
         "an address divisible by " + std::to_string(item_size(*dtype)),
         "address ending in " + std::to_string(reinterpret_cast<uintptr_t>(data) % 64) + " of 64");
  }
  const int64_t* strides = t.strides != nullptr ? t.strides : want.packed_stride.data();
  out = {data, *dtype, rank, want.shape.data(), as_wanted ? strides : merged->data()};
}

// First and one past the last byte; an empty tensor has none, nor has one that was left out.
std::pair<intptr_t, intptr_t> span(const Operand& t) {
  if (t.data == nullptr) return {0, 0};
  int64_t low = 0, high = 0;
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return {0, 0};
    const int64_t reach = t.stride[d] * (t.shape[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto base = reinterpret_cast<intptr_t>(t.data);
  const int64_t item = item_size(t.dtype);
  return {base + low * item, base + (high + 1) * item};
}

bool is_packed(const Operand& t, const Shape& packed_stride) {
  for (int d = 0; d < t.rank; ++d)
    if (t.stride[d] != packed_stride[d] && t.shape[d] > 1) return false;
  return true;
}

}  // namespace

Dtype dtype_from_name(const std::string& name) {
  for (const NamedDtype& n : kDtypes)
    if (name == n.name) return n.dtype;
  throw PlanError("KernelError", "unknown element type '" + name + "'");
}

const char* dtype_name(Dtype d) { return kDtypes[int(d)].name; }

int CallContract::check(const DLTensor* const* given, Operand* operands,
                        MergedStrides* strides) const {
  const int count = int(tensors.size());
  int on_device = device_id, first = -1;
  for (int i = 0; i < count; ++i) {
    if (given[i] == nullptr) {
      operands[i] = {nullptr, tensors[i].dtypes[0], 0, nullptr, nullptr};
      continue;
    }
    check_tensor(*this, tensors[i], *given[i], operands[i],
                 strides != nullptr ? &strides[i] : nullptr);
    if (device == kDLCPU) continue;  // which is one device, whatever its number
    const int id = given[i]->device.device_id;
    if (on_device != kAnyDevice && id != on_device)
      fail("InvalidProblem", *this, tensors[i],
           "a tensor on " + gpu_name(on_device) +
               (first < 0 ? " (this plan's device)" : ", as '" + tensors[first].name + "'"),
           "one on " + gpu_name(id));
    if (on_device == kAnyDevice) on_device = id, first = i;
  }
  for (int i = 0; i < count; ++i) {
    const TensorContract& want = tensors[i];
    if (want.role == Role::kInput) continue;
    if (!is_packed(operands[i], want.packed_stride) && may_overlap_itself(operands[i])) {
      fail("InvalidProblem", *this, want, "an output whose elements have addresses of their own",
           "strides " + describe(operands[i].stride, operands[i].rank) + " that overlap");
    }
    const auto [low, high] = span(operands[i]);
    for (int j = 0; j < count; ++j) {
      if (j == i || (j < i && tensors[j].role != Role::kInput)) continue;
      const auto [other_low, other_high] = span(operands[j]);
      if (high <= other_low || other_high <= low) continue;
      const bool allowed =
          std::find(want.may_equal.begin(), want.may_equal.end(), j) != want.may_equal.end();
      if (allowed && same_memory(operands[i], operands[j])) continue;
      if (!may_overlap(operands[i], operands[j])) continue;
      fail("InvalidProblem", *this, want,
           allowed ? "memory apart from '" + tensors[j].name + "', or exactly the same (in place)"
                   : "memory apart from '" + tensors[j].name + "'",
           "memory that overlaps it");
    }
  }
  return std::max(on_device, 0);
}

char* CallContract::check_workspace(const Operand* operands, int on_device,
                                    const DLTensor& workspace) const {
  const auto refuse = [&](const char* kind, const std::string& rest) {
    throw PlanError(kind, plan + ": workspace: expected " + rest);
  };
  const int64_t item = workspace.dtype.bits / 8 * workspace.dtype.lanes;
  int64_t bytes = item;
  bool packed = true;
  for (int d = workspace.ndim - 1; d >= 0; --d) {
    packed = packed && (workspace.strides == nullptr || workspace.shape[d] <= 1 ||
                        workspace.strides[d] * item == bytes);
    bytes *= workspace.shape[d];
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(workspace.data) + workspace.byte_offset;
  const auto low = intptr_t(address);
  if (!is_on(workspace.device, device))
    refuse("Unsupported", "a " + device_name(device) + " tensor");
  if (device != kDLCPU && workspace.device.device_id != on_device)
    refuse("InvalidProblem", "a tensor on " + gpu_name(on_device) + ", got one on " +
                                 gpu_name(workspace.device.device_id));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [first, last] = span(operands[i]);
    if (first < last && low < last && first < low + bytes)
      refuse("InvalidProblem",
             "memory apart from '" + tensors[i].name + "', got memory that overlaps it");
  }
  if (!packed) refuse("InvalidProblem", "a contiguous tensor");
  if (bytes < workspace_size)
    refuse("WorkspaceTooSmall",
           "at least " + std::to_string(workspace_size) + " bytes, got " + std::to_string(bytes));
  const uintptr_t pad = workspace_size > 0 ? -address % workspace_alignment : 0;
  return reinterpret_cast<char*>(address + pad);
}

}  // namespace gradplan::ffi
