// The words of scatter_reduce.
#pragma once

#include <algorithm>

#include "ffi/kernel.h"

namespace gradplan::gather {
using namespace ffi;

enum class Reduce { kSum, kMean, kProd, kAmax, kAmin };

inline const std::vector<std::string> kReduces = {"sum", "mean", "prod", "amax", "amin"};

inline Reduce reduce_of(const Problem& problem) {
  const auto at = std::find(kReduces.begin(), kReduces.end(), problem.text("reduce"));
  return Reduce(at - kReduces.begin());
}

}  // namespace gradplan::gather
