// Exclusive scans: the inclusive scan of all elements but the last, one place further on.
#pragma once

#include <string>
#include <vector>

#include "ffi/kernel.h"

namespace gradplan::scan {
using namespace ffi;

// What an exclusive scan does with its tensors, by name.
struct Exclusive {
  std::vector<std::string> results;  // one place behind in the scan's order: y, dy
  std::string start;                 // the result that begins with `identity`; none: no such one
  double identity = 0;
  std::string initial;            // or with this tensor, where it is given
  std::vector<std::string> ends;  // gradients: 0 at the last element
  std::string d_initial;          // takes in the gradient of the first result as well
  std::string d_first;            // which is in this tensor
};

inline bool is_exclusive(const Problem& problem) {
  return problem.has("exclusive") && problem.flag("exclusive");
}

// `bind` is that of the inclusive scan, for a problem with the attributes scan_axis and reverse.
BoundKernel bind_exclusive(const Problem& problem, const Exclusive& how,
                           BoundKernel (*bind)(const Problem&));

}  // namespace gradplan::scan
