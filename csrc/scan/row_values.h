// One value for each row, beside the tensors that are swept: what comes in before its first
// element, or goes out behind its last.
#pragma once

#include "lanes/elements.h"
#include "lanes/visit.h"
#include "memory/geometry.h"

namespace gradplan::scan {
using namespace ffi;
using namespace lanes;
using namespace memory;

// A tensor that lacks the axis, as one of the shape that has it: all along a row it is the same
// element. Without data if the tensor was left out.
class Repeated {
 public:
  Repeated(const Operand& values, const Operand& whole, int axis) : stride_(whole.rank) {
    for (int d = 0, of = 0; d < whole.rank; ++d)
      if (d != axis && values.data != nullptr) stride_[d] = values.stride[of++];
    operand_ = {values.data, values.dtype, whole.rank, whole.shape, stride_.data()};
  }
  Repeated(const Repeated&) = delete;

  const Operand* operator&() const { return &operand_; }

 private:
  std::vector<int64_t> stride_;
  Operand operand_;
};

// Rows are numbered as in `tensors`, one operand of which it is.
class RowValues {
 public:
  RowValues() = default;
  RowValues(const RowTensors& tensors, int operand) : RowValues(tensors, operand, tensors.dtype) {}
  // Of another element type than the tensors.
  RowValues(const RowTensors& tensors, int operand, Dtype dtype)
      : tensors_(&tensors), operand_(operand), dtype_(dtype) {}

  bool present() const { return tensors_ != nullptr && tensors_->data[operand_] != nullptr; }

  template <class C>
  C load(int64_t row) const {
    return visit_element(dtype_, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      return C(load_element(at<E>(row)));
    });
  }
  // Those of the lanes from `lane` on, of whole rows.
  template <class C>
  Lanes<C> load_lanes(int64_t lane, int count) const {
    alignas(64) C buffer[kLanes] = {};
    for (int l = 0; l < count; ++l) buffer[l] = load<C>(lane + l);
    return Lanes<C>::load(buffer);
  }
  template <class C>
  void store(int64_t row, C value) const {
    visit_element(dtype_, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      store_element(at<E>(row), ComputeOf<E>(value));
    });
  }

 private:
  template <class E>
  E* at(int64_t row) const {
    return static_cast<E*>(tensors_->data[operand_]) + tensors_->row_offsets(row)[operand_];
  }

  const RowTensors* tensors_ = nullptr;
  int operand_ = 0;
  Dtype dtype_ = Dtype::kF32;
};

}  // namespace gradplan::scan
