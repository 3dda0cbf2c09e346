// Indices along an axis: what tensors of a problem have in common, and the checks of indices.
#pragma once

#include <string>

#include "lanes/visit.h"
#include "memory/dimensions.h"
#include "rows/index_check.h"

namespace gradplan::gather {
using namespace ffi;
using namespace lanes;
using namespace memory;
using rows::IndexRange;

// A problem of this family: `members` has the shape of what is picked or added up, `table` that
// with another extent along the axis. Positions among the operands.
struct AxisProblem {
  std::string plan;
  int members, ids, table;
  int axis;
  bool shared;  // all lines have the same indices, which are a line themselves
  bool raise;
  Shape shape;  // of the members
  int64_t n;    // along the axis
  int64_t size;
  Dtype element;

  AxisProblem(const Problem& problem, const std::string& member_name, const std::string& table_name)
      : plan(problem.plan),
        members(problem.at(member_name)),
        ids(problem.at("indices")),
        table(problem.at(table_name)),
        axis(int(problem.integer("axis"))),
        shared(false),
        raise(problem.text("bounds") == "raise"),
        shape(problem.shape[members]),
        n(shape.empty() ? 1 : shape[axis]),
        size(problem.shape[table][axis]),
        element(problem.element()) {}

  IndexRange range() const { return {size}; }
  int64_t lines() const { return n == 0 ? 0 : count_elements(shape) / n; }
};

// The strides of the indices by axis of the members; 0 where lines share them.
inline Shape index_strides(const AxisProblem& p, const Operand& ids) {
  Shape strides(p.shape.size());
  if (p.shape.empty()) return strides;
  if (p.shared)
    strides[p.axis] = ids.stride[0];
  else
    std::copy(ids.stride, ids.stride + ids.rank, strides.begin());
  return strides;
}

// The checks of indices that need their values: before anything is written.
void check_indices(const AxisProblem& problem, const Operand& ids);

}  // namespace gradplan::gather
