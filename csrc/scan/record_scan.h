// cummax and cummin backward: the gradient of every position goes to the record that holds there.
//
// A sweep in forward order marks the records, one bit an element; a sweep from the end sums dy and
// hands the sum to each record that it meets.
#pragma once

#include "lanes/mask_bits.h"
#include "scan/extremes.h"
#include "scan/recurrence.h"

namespace gradplan::scan {

// Marks of all lane groups: group i of a range starts at (ids before it / 16, rounded up) * piece.
struct Marks {
  uint16_t* bits;
  int64_t piece;
  int64_t full_groups;  // groups of full pieces; those of the shorter last pieces come behind

  uint16_t* of(const LaneRange& range, int64_t lane) const {
    const int64_t before = range.length == piece ? 0 : full_groups;
    return bits +
           (before + (lane + range.first_piece * range.rows * (before == 0)) / kLanes) * piece;
  }
};

template <class C>
struct MarkState {
  Lanes<C> extreme;
  uint16_t* marks;
  uint16_t first;  // lanes whose first position is the row's first
};

// Walks lanes backwards, which is the forward order: step i is the position length-1-i of the lane.
template <class C, class Op>
struct MarkKernel final : SweepKernelOf<C, MarkState<C>> {
  using V = Lanes<C>;

  Marks marks;
  const C* extremes;  // before every piece; null: whole rows
  int64_t last_piece;
  bool ties_last;
  RowValues before;  // the extremes of everything before the rows, if anything is

  MarkKernel(const Marks& marks, const C* extremes, int64_t last_piece, bool ties_last,
             const RowValues& before)
      : SweepKernelOf<C, MarkState<C>>(1, 0),
        marks(marks),
        extremes(extremes),
        last_piece(last_piece),
        ties_last(ties_last),
        before(before) {}

  void begin(void* state, const LaneInputs<C>&, const LaneRange& range, int64_t lane,
             int lanes) const override {
    MarkState<C>& s = this->of(state);
    s.extreme = extremes           ? V::load(extremes + range.id(lane))
                : before.present() ? before.load_lanes<C>(lane, lanes)
                                   : Op::template identity<V>();
    s.marks = marks.of(range, lane);
    s.first = 0;
    if (before.present()) return;
    for (int l = 0; l < lanes; ++l)
      if (range.first_piece + (lane + l) / range.rows == last_piece) s.first |= uint16_t(1u << l);
  }

  void square(void* state, Square<C>* squares, int64_t step, int count,
              int64_t length) const override {
    MarkState<C>& s = this->of(state);
    uint16_t* marks = s.marks + (length - 1 - step);
    s.extreme = ties_last ? mark<true>(s.extreme, squares[0], marks, count)
                          : mark<false>(s.extreme, squares[0], marks, count);
    if (step == 0) *marks |= s.first;
  }

 private:
  template <bool TiesLast>
  GP_INLINE static V mark(const V& extreme, const Square<C>& square, uint16_t* marks, int count) {
    Records<C, Op, TiesLast> records(extreme);
    for (int i = 0; i < count; ++i) marks[-i] = mask_bits(records.meet(square.get(i)));
    return records.extreme();
  }
};

// t[q] = dy[q] + u[q-1], u = t but -0.0 behind a record; dx = t at records. Inputs: dy.
template <class Compute>
struct RecordPolicy {
  using C = Compute;
  static constexpr int kInputs = 1, kSummaryInputs = 1, kOutputs = 1, kAhead = -1;

  template <class V>
  struct Memory {
    const uint16_t* marks;
  };
  template <class V>
  struct Gain {
    V passes;  // 1 where no record stands in the way, else 0
  };

  Marks marks;

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>&, const LaneRange& range, int64_t lane,
             int, int64_t, const C*) const {
    memory.marks = marks.of(range, lane);
  }
  template <class M>
  void finish_input(const M&, Square<C>*, int) const {}

  template <class V>
  static Gain<V> start(const Memory<V>&) {
    return {V(ElementOf<V>(1))};
  }
  template <class V>
  static void finish(Gain<V>&, const Memory<V>&) {}
  template <class V>
  static Gain<V> compose(const Gain<V>& later, const Gain<V>& earlier) {
    return {later.passes * earlier.passes};
  }
  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    using T = ElementOf<V>;
    return l + select(gain.passes != V(T(0)), v, V(T(-0.0)));
  }
  template <class V>
  static void pack(const Gain<V>& gain, V* fields) {
    fields[0] = fields[1] = gain.passes;
  }
  template <class V>
  static Gain<V> unpack(const V* fields) {
    return {fields[0]};
  }

  template <bool Emit, bool Summary, class State>
  void square(State& s, Square<C>* squares, int64_t step, int count, bool first) const {
    using V = Lanes<C>;
    const V nothing = V(C(-0.0));
    const uint16_t* marks = s.memory.marks + step;
    V t = s.t, l = s.l, passes = s.gain.passes;
    for (int i = 0; i < count; ++i) {
      const V dy = squares[0].get(i);
      const auto record = mask_of_bits<IntOf<C>>(marks[i]);
      if constexpr (Emit) {
        // Nothing has come in where has_t is false: t is -0.0 there.
        const V sum = dy + t;
        squares[1].set(i, select(record, sum, V(C(0))));
        t = select(record, nothing, sum);
      }
      if constexpr (Summary) {
        l = select(record, nothing, first && i == 0 ? dy : dy + l);
        passes = select(record, V(C(0)), passes);
      }
    }
    if constexpr (Emit) s.t = t;
    if constexpr (Summary) {
      s.l = l;
      s.gain.passes = passes;
    }
  }
};

inline int64_t mark_bytes(const Cut& cut) {
  auto groups = [](int64_t lanes) { return (lanes + kLanes - 1) / kLanes; };
  const int64_t all = groups(cut.rows * cut.full()) + groups(cut.tail() > 0 ? cut.rows : 0);
  return (all * cut.piece * int64_t(sizeof(uint16_t)) + 63) / 64 * 64;
}

// Marks the records of x. `extremes` has room for one of every piece, unless rows are whole.
template <class C, class Op>
Marks mark_records(const RowTensors& x, const Cut& cut, bool ties_last, const RowValues& before,
                   C* extremes, char* memory) {
  const Marks marks{reinterpret_cast<uint16_t*>(memory), cut.piece,
                    (cut.rows * cut.full() + kLanes - 1) / kLanes};
  if (!cut.whole()) find_extremes<Op>(x, cut, extremes, true, before);
  const MarkKernel<C, Op> mark(marks, cut.whole() ? nullptr : extremes, cut.pieces() - 1, ties_last,
                               before);
  cut.ranges(0, cut.pieces(), [&](const LaneRange& r) { sweep<C>(mark, x, r, Walk::kBackwards); });
  return marks;
}

template <class C>
int64_t record_scan_workspace(int64_t rows, int64_t n) {
  const Cut cut = Cut::of(rows, n);
  return mark_bytes(cut) + recurrence_workspace<C>(cut);
}

// Operands: x, dy, dx, from the end. `before` has the extremes of everything before the rows,
// `initial` what comes into them from behind.
template <class C, class Op>
void record_scan(const RowTensors& tensors, bool ties_last, char* workspace,
                 const RowValues& before = {}, const RowValues& initial = {}) {
  const Cut cut = Cut::of(tensors.rows, tensors.n);
  if (cut.empty()) return;
  const RecurrenceCarries<C> carries(workspace, cut);
  const Marks marks = mark_records<C, Op>(tensors.only(1), cut, ties_last, before, carries.memory,
                                          workspace + recurrence_workspace<C>(cut));
  run_recurrence(RecordPolicy<C>{marks}, tensors.only(2, 1), cut, &carries, initial);
}

}  // namespace gradplan::scan
