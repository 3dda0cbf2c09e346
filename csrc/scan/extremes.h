// Running extremes: which elements become them, and the extreme of everything before each piece of
// a row, for sweeps that start with it.
#pragma once

#include "lanes/operations.h"
#include "scan/pieces.h"
#include "scan/row_values.h"

namespace gradplan::scan {

// The extreme so far in 16 lanes. A NaN is one that stays: from there on a lane is not open. So the
// extreme itself needs no care for NaN, and each step waits for the one before it as short as can
// be.
template <class C, class Op, bool TiesLast>
class Records {
 public:
  using V = Lanes<C>;

  GP_INLINE explicit Records(const V& extreme) : extreme_(extreme), open_(extreme == extreme) {}

  // The lanes where x is the extreme from now on; of equal ones that is the first or the last.
  GP_INLINE Mask<C> meet(const V& x) {
    const auto nan = x != x;
    const auto record = TiesLast ? nan | (open_ & ((x == extreme_) | Op::beats(x, extreme_)))
                                 : open_ & (nan | Op::beats(x, extreme_));
    open_ = open_ & ~nan;
    for (int p = 0; p < V::kParts; ++p)
      extreme_.part[p] = Op::apply_hastily(extreme_.part[p], x.part[p]);
    return record;
  }

  GP_INLINE V extreme() const {
    return select(open_, extreme_, V(std::numeric_limits<C>::quiet_NaN()));
  }

 private:
  V extreme_;
  Mask<C> open_;
};

template <class C>
struct ExtremeState {
  Lanes<C> extreme;
};

// The extreme of every piece by itself.
template <class C, class Op>
struct ExtremeKernel final : SweepKernelOf<C, ExtremeState<C>> {
  using V = Lanes<C>;
  C* extremes;

  explicit ExtremeKernel(C* extremes)
      : SweepKernelOf<C, ExtremeState<C>>(1, 0), extremes(extremes) {}

  void begin(void* state, const LaneInputs<C>&, const LaneRange&, int64_t, int) const override {
    this->of(state).extreme = Op::template identity<V>();
  }
  void square(void* state, Square<C>* squares, int64_t, int count, int64_t) const override {
    V extreme = this->of(state).extreme;
    for (int i = 0; i < count; ++i) extreme = Op::apply(extreme, squares[0].get(i));
    this->of(state).extreme = extreme;
  }
  void end(void* state, const LaneRange& range, int64_t lane, int lanes) const override {
    store_used(this->of(state).extreme, extremes + range.id(lane), lanes);
  }
};

// Turns extremes of pieces into those of everything before each piece, along each row; from the
// last piece down if `descending`. `before` has those of everything before the rows, if anything
// is.
template <class Op, class C>
void chain_extremes(const Cut& cut, C* extremes, bool descending, const RowValues& before) {
  for (int64_t row = 0; row < cut.rows; ++row) {
    C running = before.present() ? before.load<C>(row) : Op::template identity<C>();
    for (int64_t i = 0; i < cut.pieces(); ++i) {
      C& at = extremes[(descending ? cut.pieces() - 1 - i : i) * cut.rows + row];
      const C own = at;
      at = running;
      running = Op::apply(running, own);
    }
  }
}

template <class Op, class C>
void find_extremes(const RowTensors& x, const Cut& cut, C* extremes, bool descending,
                   const RowValues& before = {}) {
  const ExtremeKernel<C, Op> kernel(extremes);
  cut.ranges(0, cut.pieces(), [&](const LaneRange& r) { sweep<C>(kernel, x, r); });
  chain_extremes<Op>(cut, extremes, descending, before);
}

}  // namespace gradplan::scan
