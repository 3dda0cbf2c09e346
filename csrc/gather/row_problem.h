// Lines that share their indices as rows by index: the axis in front, what is behind it the row.
#pragma once

#include "gather/axis_indices.h"

namespace gradplan::gather {

// What is in front of the axis are problems one after the other.
class RowProblem {
 public:
  explicit RowProblem(const AxisProblem& p) : width_(1), outer_(1) {
    for (int d = 0; d < int(p.shape.size()); ++d)
      (d > p.axis ? width_ : d < p.axis ? outer_ : one_) *= p.shape[d];
  }

  // The problem of the rows' kernels, whose operands are where ours are.
  Problem problem(Problem of) const {
    for (auto& [name, slot] : of.slot) {
      Shape& shape = of.shape[slot];
      const int64_t n = shape.empty() ? 1 : shape[shape.size() == 1 ? 0 : axis_in(of)];
      shape = name == "indices" ? Shape{n} : Shape{n, width_};
    }
    return of;
  }

  rows::IndexRule rule(const AxisProblem& p) const {
    return {.plan = p.plan, .ids = "indices", .range = p.range()};  // bounds are checked before
  }

  // Runs `kernel` if the layout allows it and it is worth it; `first` before that.
  bool run(const AxisProblem& p, const Operand* t, char* workspace, const BoundKernel& kernel,
           const std::function<void()>& first = {}) const {
    const Operand &x = t[p.members], &y = t[p.table], &ids = t[p.ids];
    const Shape id_strides = index_strides(p, ids);
    for (int d = 0; d < int(p.shape.size()); ++d)
      if (d != p.axis && p.shape[d] > 1 && id_strides[d] != 0) return false;
    if (p.shape.empty() || width_ * outer_ == 0) return false;
    // Sorting for every one of many narrow problems would take longer than they do.
    if (outer_ > 1 && (width_ < 8 || outer_ * 4 > p.n)) return false;
    int64_t x_step = 1, y_step = 1;
    if (!merges(x, p.axis, x_step) || !merges(y, p.axis, y_step)) return false;
    if (width_ > 1 && (std::abs(x_step) > std::abs(x.stride[p.axis]) ||
                       std::abs(y_step) > std::abs(y.stride[p.axis])))
      return false;
    const int64_t id_shape[] = {p.n}, id_stride[] = {id_strides[p.axis]};
    const int64_t x_shape[] = {p.n, width_}, x_stride[] = {x.stride[p.axis], x_step};
    const int64_t y_shape[] = {p.size, width_}, y_stride[] = {y.stride[p.axis], y_step};
    Dimensions outer;
    for (int d = 0; d < p.axis; ++d) outer.add(p.shape[d], {x.stride[d], y.stride[d]});
    if (first) first();
    for (int64_t k = 0; k < outer_; ++k) {
      const Offsets at = outer.offsets(k);
      Operand given[kMostOperands]{};
      const int64_t item = item_size(x.dtype);
      given[p.ids] = {ids.data, ids.dtype, 1, id_shape, id_stride};
      given[p.members] = {x.as<char>() + at[0] * item, x.dtype, 2, x_shape, x_stride};
      given[p.table] = {y.as<char>() + at[1] * item, y.dtype, 2, y_shape, y_stride};
      kernel.launch(given, workspace);
    }
    return true;
  }

 private:
  static int axis_in(const Problem& of) { return int(of.integer("axis")); }

  // Whether the axes behind the axis are one, and how far apart its elements are.
  static bool merges(const Operand& t, int axis, int64_t& step) {
    Dimensions behind;
    bool any = false;
    int64_t expected = 0;
    for (int d = t.rank - 1; d > axis; --d) {
      if (t.shape[d] == 1) continue;
      if (!any) {
        any = true;
        step = t.stride[d];
        expected = step * t.shape[d];
      } else if (t.stride[d] != expected) {
        return false;
      } else {
        expected *= t.shape[d];
      }
    }
    return true;
  }

  int64_t width_, outer_, one_ = 1;
};

}  // namespace gradplan::gather
