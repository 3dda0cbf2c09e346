#include "cuda/program.h"

#include <algorithm>

namespace gradplan::cuda {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::String;

constexpr char kNull = '0';  // a parameter that is a null pointer in every launch

Kernel kernel_from(const Array<Any>& described) {
  return {described[0].cast<String>(),
          described[1].cast<String>(),
          described[2].cast<Bytes>(),
          described[3].cast<String>(),
          unsigned(described[4].cast<int64_t>()),
          unsigned(described[5].cast<int64_t>())};
}

}  // namespace

Program::Program(Device& device, const Described& described, const Report::Explain& explain)
    : workspace_size(described[0].cast<int64_t>()), driver_(device.driver) {
  if (auto report = described[1].as<String>())
    report_ = &device.reports.slot(driver_, *report, explain);
  for (const Array<Any>& each : described[2].cast<Array<Array<Any>>>()) {
    const Kernel kernel = kernel_from(each[0].cast<Array<Any>>());
    const auto grid = each[1].cast<Array<int64_t>>();
    const auto places = each[2].cast<Array<int64_t>>(), values = each[3].cast<Array<int64_t>>();
    Launch launch{kernel.key,
                  device.load(kernel),
                  {unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2])},
                  kernel.threads,
                  kernel.shared,
                  {}};
    for (size_t i = 0; i < places.size(); ++i)
      launch.arguments.push_back({places[i], uint64_t(values[i])});
    const auto null = std::count(kernel.parameters.begin(), kernel.parameters.end(), kNull);
    launch.arguments.insert(launch.arguments.end(), size_t(null), {kNumber, 0});
    if (launch.arguments.size() != kernel.parameters.size())
      throw ffi::PlanError("KernelError", kernel.key + ": " + std::to_string(places.size()) +
                                              " arguments for parameters " + kernel.parameters);
    launches_.push_back(std::move(launch));
  }
}

uint64_t Program::resolve(const Argument& argument, const ffi::Operand* operands,
                          char* workspace) const {
  if (argument.place == kNumber) return argument.value;
  if (argument.place == kWorkspace) return reinterpret_cast<uint64_t>(workspace) + argument.value;
  if (argument.place == kReport) return report_->address + argument.value;
  return reinterpret_cast<uint64_t>(operands[argument.place].data) + argument.value;
}

void Program::launch(const ffi::Operand* operands, char* workspace, Stream stream) const {
  std::vector<uint64_t> values;
  std::vector<void*> parameters;
  for (const Launch& launch : launches_) {
    values.clear(), parameters.clear();
    for (const Argument& argument : launch.arguments)
      values.push_back(resolve(argument, operands, workspace));
    for (uint64_t& value : values)
      parameters.push_back(&value);  // low bytes first, as on every GPU
    driver_.check(driver_.cuLaunchKernel(launch.entry, launch.grid[0], launch.grid[1],
                                         launch.grid[2], launch.threads, 1, 1, launch.shared,
                                         stream, parameters.data(), nullptr),
                  "cuLaunchKernel", launch.key);
  }
}

}  // namespace gradplan::cuda
