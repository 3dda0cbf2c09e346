// A GPU: its primary context, which PyTorch, JAX and CuPy use as well, the kernels that have been
// loaded there, and the reports of those kernels.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/reports.h"

namespace gradplan::cuda {

// A kernel as it is shipped.
struct Kernel {
  std::string key;
  std::string entry;  // its name in the PTX
  std::string ptx;
  std::string parameters;  // a letter each: p, i, l, f, d and 0, which is a null pointer
  unsigned threads;
  unsigned shared;
};

class Device {
 public:
  // The GPU with that number, made at first use and never given back.
  static Device& at(const std::string& library, int ordinal);

  const Driver& driver;
  const Context context;
  Reports reports;

  // A kernel on this device; loaded once, by the driver's compiler. The context must be current.
  Entry load(const Kernel& kernel);

  void synchronize() const;

 private:
  Device(const Driver& driver, int ordinal);

  const std::string name_;
  std::mutex mutex_;
  std::map<std::string, Entry> loaded_;  // by PTX
};

}  // namespace gradplan::cuda
