#include "ffi/error.h"

namespace gradplan::ffi {

PlanError::PlanError(std::string kind, const std::string& message)
    : std::runtime_error(message), kind(std::move(kind)) {}

PlanError::~PlanError() = default;

}  // namespace gradplan::ffi
