#include "scan/exclusive.h"

#include <algorithm>
#include <memory>

#include "lanes/elements.h"
#include "lanes/visit.h"
#include "memory/geometry.h"
#include "memory/threads.h"
#include "scan/row_values.h"

namespace gradplan::scan {
namespace {

// A tensor of the inclusive scan: without one place of the axis.
class Shortened {
 public:
  Shortened(const Operand& whole, int axis, bool drops_first)
      : operand_(whole), shape_(whole.shape, whole.shape + whole.rank) {
    if (axis < 0) return;  // it has no such axis
    --shape_[axis];
    if (drops_first && whole.data != nullptr)
      operand_.data = whole.as<char>() + whole.stride[axis] * item_size(whole.dtype);
  }
  Operand get() {
    operand_.shape = shape_.data();
    return operand_;
  }

 private:
  Operand operand_;
  Shape shape_;
};

// Calls f(row) for all rows of a tensor.
template <class F>
void for_rows(const RowTensors& tensors, F&& f) {
  parallel_for(tensors.rows, 256, tensors.rows * 64, [&](int64_t row, int64_t end) {
    for (; row < end; ++row) f(row);
  });
}

void fill(const Operand& t, int axis, bool at_end, double value) {
  const RowTensors tensors({&t}, axis, at_end);
  const RowValues places(tensors, 0);
  for_rows(tensors, [&](int64_t row) { places.store(row, value); });
}

// The first results are the initial values.
void copy_initial(const Operand& initial, const Operand& h, int axis, bool at_end) {
  const Repeated start(initial, h, axis);
  const RowTensors tensors({&start, &h}, axis, at_end);
  const RowValues from(tensors, 0), to(tensors, 1);
  for_rows(tensors, [&](int64_t row) { to.store(row, from.load<double>(row)); });
}

void add_first(const Operand& d_initial, const Operand& dh, int axis, bool at_end) {
  const Repeated start(d_initial, dh, axis);
  const RowTensors tensors({&start, &dh}, axis, at_end);
  const RowValues sum(tensors, 0), first(tensors, 1);
  visit_compute(dh.dtype, [&](auto* tag) {
    using C = std::remove_pointer_t<decltype(tag)>;
    for_rows(tensors,
             [&](int64_t row) { sum.store(row, C(sum.load<C>(row) + first.load<C>(row))); });
  });
}

}  // namespace

BoundKernel bind_exclusive(const Problem& problem, const Exclusive& how,
                           BoundKernel (*bind)(const Problem&)) {
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const auto slot = [&](const std::string& name) { return name.empty() ? -1 : problem.at(name); };
  const int count = int(problem.shape.size());
  const int initial = slot(how.initial), d_initial = slot(how.d_initial);
  const int start = slot(how.start), d_first = slot(how.d_first);
  const Shape shape = problem.shape[0];  // of every tensor that has the axis
  const bool scalar = shape.empty();     // a row of one element
  const int64_t n = scalar ? 1 : shape[axis];
  BoundKernel inclusive;
  std::vector<bool> shortened(count), shifted(count);
  Problem shorter = problem;
  for (int k = 0; k < count; ++k) {
    shortened[k] = k != initial && k != d_initial;
    if (shortened[k] && !scalar && n > 0) --shorter.shape[k][axis];
  }
  for (const std::string& name : how.results)
    if (problem.at(name) >= 0) shifted[problem.at(name)] = true;
  if (!scalar) inclusive = bind(shorter);
  std::vector<int> ends;
  for (const std::string& name : how.ends) ends.push_back(problem.at(name));

  BoundKernel made;
  made.workspace_size = inclusive.workspace_size;
  made.dispensable = inclusive.dispensable;
  made.launch = [=, identity = how.identity, launch = inclusive.launch](const Operand* t,
                                                                        char* workspace) {
    if (n == 0) return launch(t, workspace);  // neither a first element nor a last one
    if (!scalar) {
      std::vector<Shortened> tensors;
      std::vector<Operand> given(t, t + count);
      tensors.reserve(size_t(count));
      for (int k = 0; k < count; ++k) {
        // In the order of the scan results lack the first place and all others the last.
        tensors.emplace_back(t[k], shortened[k] ? axis : -1, shifted[k] != reverse);
        given[k] = tensors.back().get();
      }
      launch(given.data(), workspace);
    }
    if (start >= 0) {
      if (initial >= 0 && t[initial].data != nullptr)
        copy_initial(t[initial], t[start], axis, reverse);
      else
        fill(t[start], axis, reverse, identity);
    }
    for (int k : ends)
      if (k >= 0 && t[k].data != nullptr) fill(t[k], axis, !reverse, 0);
    if (d_initial >= 0 && t[d_initial].data != nullptr) {
      if (scalar) fill(t[d_initial], 0, false, 0);
      add_first(t[d_initial], t[d_first], axis, reverse);
    }
  };
  return made;
}

}  // namespace gradplan::scan
