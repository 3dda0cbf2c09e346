// The one error that a user's mistake is.
#pragma once

#include <stdexcept>
#include <string>

// What one library has and the other uses: kernels live in libraries of their own.
#define GP_SHARED __attribute__((visibility("default")))

namespace gradplan::ffi {

// `kind` is the name of the Python error class. Thrown in one library and caught in another, so its
// type has one home (error.cc).
struct GP_SHARED PlanError : std::runtime_error {
  PlanError(std::string kind, const std::string& message);
  ~PlanError() override;
  std::string kind;
};

}  // namespace gradplan::ffi
