// Where running extremes come from: the positions that cummax and cummin take their values from,
// and the values along with them where they are wanted.
#include "lanes/transpose.h"
#include "lanes/visit.h"
#include "scan/extremes.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

// The extreme before every piece of a row, and its position.
template <class C>
struct PieceExtremes {
  C* value;
  int64_t* position;

  static int64_t bytes(int64_t ids) {
    return PieceArrays<C>::bytes(ids, 1) + PieceArrays<int64_t>::bytes(ids, 1);
  }
  PieceExtremes(char* workspace, int64_t ids)
      : value(PieceArrays<C>::at(workspace, ids, 0)),
        position(PieceArrays<int64_t>::at(workspace + PieceArrays<C>::bytes(ids, 1), ids, 0)) {}
};

template <class C>
struct IndexState {
  Lanes<C> extreme;
  Mask<C> step;            // of the lane, where its extreme is; -1: before the lane
  int64_t first[kLanes];   // position of a lane's first step
  int64_t before[kLanes];  // and of the extreme before it
  char* to[kLanes];        // the output at the lane's first step
  int lanes;
};

// Positions count along the axis from its beginning, whichever way the scan goes.
struct Positions {
  int64_t n;
  bool reverse;

  int64_t of(int64_t place) const { return reverse ? n - 1 - place : place; }
};

// With `output` the second sweep, which writes; without it the first, which finds the extreme of
// every piece by itself. The values are the sweep's own output, if it has one.
template <class C, class Op, class Index>
struct IndexKernel final : SweepKernelOf<C, IndexState<C>> {
  using V = Lanes<C>;
  using Steps = Mask<C>;
  using Base = SweepKernelOf<C, IndexState<C>>;

  PieceExtremes<C> pieces;
  const RowTensors* output;  // of positions
  Positions positions;
  bool cut, ties_last;

  IndexKernel(const PieceExtremes<C>& pieces, const RowTensors* output, bool values,
              Positions positions, bool cut, bool ties_last)
      : Base(1, output && values),
        pieces(pieces),
        output(output),
        positions(positions),
        cut(cut),
        ties_last(ties_last) {}

  void begin(void* state, const LaneInputs<C>&, const LaneRange& range, int64_t lane,
             int lanes) const override {
    IndexState<C>& s = this->of(state);
    const bool carried = output && cut;
    s.extreme = carried ? V::load(pieces.value + range.id(lane)) : Op::template identity<V>();
    alignas(64) ElementOf<Steps> step[kLanes] = {};
    s.lanes = lanes;
    for (int l = 0; l < lanes; ++l) {
      const int64_t piece = range.first_piece + (lane + l) / range.rows;
      const int64_t place = piece * range.piece;
      s.first[l] = positions.of(place);
      if (!output) continue;
      // The first element of a row is an extreme whatever it is.
      if (carried && piece > 0) step[l] = -1;
      s.before[l] = carried ? pieces.position[range.id(lane + l)] : 0;
      s.to[l] = static_cast<char*>(output->data[0]) +
                (output->row_offsets((lane + l) % range.rows)[0] + place * output->step[0]) *
                    int64_t(sizeof(Index));
    }
    s.step = Steps::load(step);
  }

  void square(void* state, Square<C>* squares, int64_t step, int count, int64_t) const override {
    IndexState<C>& s = this->of(state);
    Square<C>* const values = this->outputs ? &squares[1] : nullptr;
    ties_last ? follow<true>(s, squares[0], values, step, count)
              : follow<false>(s, squares[0], values, step, count);
  }

  void end(void* state, const LaneRange& range, int64_t lane, int lanes) const override {
    if (output) return;
    const IndexState<C>& s = this->of(state);
    store_used(s.extreme, pieces.value + range.id(lane), lanes);
    for (int l = 0; l < lanes; ++l)
      pieces.position[range.id(lane + l)] = positions.of(positions.of(s.first[l]) + s.step[l]);
  }

 private:
  template <bool TiesLast>
  void follow(IndexState<C>& s, const Square<C>& square, Square<C>* values, int64_t from,
              int count) const {
    alignas(64) ElementOf<Steps> steps[kLanes][kLanes];
    Records<C, Op, TiesLast> records(s.extreme);
    Steps at = s.step;
    for (int i = 0; i < count; ++i) {
      const Steps record = records.meet(square.get(i));
      at = (record & Steps(ElementOf<Steps>(from + i))) | (~record & at);
      at.store(steps[i]);
      if (values) values->set(i, records.extreme());
    }
    s.extreme = records.extreme();
    s.step = at;
    if (output) write(s, steps, from, count);
  }

  using Step = ElementOf<Steps>;

  void write(const IndexState<C>& s, const Step (&steps)[kLanes][kLanes], int64_t from,
             int count) const {
    const int64_t stride = output->step[0];
    const int64_t sign = positions.reverse ? -1 : 0;  // (step ^ sign) - sign turns it around
    const auto value = [sign](Step step, int64_t first, int64_t before) GP_INLINE_LAMBDA {
      return Index(step < 0 ? before : first + ((step ^ sign) - sign));
    };
    const auto at = [&](int l) { return reinterpret_cast<Index*>(s.to[l]) + from * stride; };
    if (stride == 1 && count == kLanes) {  // a lane at a time, whose elements are neighbours
      alignas(64) Step turned[kLanes][kLanes];
      turn(steps, turned);
      for (int l = 0; l < s.lanes; ++l) {
        Index* const to = at(l);
        const int64_t first = s.first[l], before = s.before[l];
        for (int i = 0; i < kLanes; ++i) to[i] = value(turned[l][i], first, before);
      }
      return;
    }
    for (int i = 0; i < count; ++i)
      for (int l = 0; l < s.lanes; ++l)
        at(l)[i * stride] = value(steps[i][l], s.first[l], s.before[l]);
  }

  GP_INLINE static void turn(const Step (&from)[kLanes][kLanes], Step (&to)[kLanes][kLanes]) {
    constexpr int W = V::kWidth;
    for (int row = 0; row < kLanes; row += W) {
      for (int column = 0; column < kLanes; column += W) {
        Native<C> r[W];
        for (int i = 0; i < W; ++i)
          r[i] = (Native<C>)*reinterpret_cast<const Native<Step>*>(&from[row + i][column]);
        transpose<C>(r);
        for (int i = 0; i < W; ++i)
          *reinterpret_cast<Native<Step>*>(&to[column + i][row]) = (Native<Step>)r[i];
      }
    }
  }
};

// Is an extreme that comes later the extreme from there on?
template <class Op, class C>
bool takes_over(C later, C earlier, bool ties_last) {
  if (ties_last && later != later) return true;
  if (earlier != earlier) return false;
  return later != later || Op::beats(later, earlier) || (ties_last && later == earlier);
}

// From those of each piece by itself to those of everything before it.
template <class Op, class C>
void chain_pieces(const Cut& cut, const PieceExtremes<C>& pieces, bool ties_last) {
  for (int64_t row = 0; row < cut.rows; ++row) {
    C value = Op::template identity<C>();
    int64_t position = 0;
    for (int64_t i = 0; i < cut.pieces(); ++i) {
      const int64_t id = i * cut.rows + row;
      const C own = pieces.value[id];
      const int64_t own_position = pieces.position[id];
      pieces.value[id] = value;
      pieces.position[id] = position;
      if (i == 0 || takes_over<Op>(own, value, ties_last)) {
        if (i == 0 || own != value) value = own;  // of equal values the first, as zeros have signs
        position = own_position;
      }
    }
  }
}

// `all`: x, perhaps the values, and the positions. The first sweep reads x alone.
template <class C, class Op, class Index>
void scan_indices(const RowTensors& all, bool reverse, bool ties_last, char* workspace) {
  const Cut cut = Cut::of(all.rows, all.n);
  if (cut.empty()) return;
  const int floats = all.operands - 1;
  const RowTensors tensors = all.only(floats), indices = all.only(1, floats);
  const bool values = floats > 1;
  const Positions positions{all.n, reverse};
  const PieceExtremes<C> pieces(workspace, cut.ids());
  const auto run = [&](const RowTensors& visited, const RowTensors* output) {
    const IndexKernel<C, Op, Index> kernel(pieces, output, values, positions, !cut.whole(),
                                           ties_last);
    cut.ranges(0, cut.pieces(), [&](const LaneRange& r) { sweep<C>(kernel, visited, r); });
  };
  if (!cut.whole()) {
    run(tensors.only(1), nullptr);
    chain_pieces<Op>(cut, pieces, ties_last);
  }
  run(tensors, &indices);
}

BoundKernel bind(const Problem& problem) {
  const bool maximum = problem.text("kind") == "cummax", reverse = problem.flag("reverse");
  const bool ties_last = problem.text("ties") == "last";
  const int axis = int(problem.integer("scan_axis"));
  const auto [rows, n] = rows_and_length(problem.shape[0], axis);
  const int64_t ids = Cut::of(rows, n).ids();
  const int x = problem.at("x"), y = problem.at("y"), at = problem.at("indices");
  return visit_compute(problem.element(), [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              visit_index(t[at].dtype, [&](auto* i) {
                using Index = std::remove_pointer_t<decltype(i)>;
                const auto run =
                    maximum ? scan_indices<C, Maximum, Index> : scan_indices<C, Minimum, Index>;
                const RowTensors all = y < 0 ? RowTensors({&t[x], &t[at]}, axis, reverse)
                                             : RowTensors({&t[x], &t[y], &t[at]}, axis, reverse);
                run(all, reverse, ties_last, workspace);
              });
            },
            PieceExtremes<C>::bytes(ids)};
  });
}

const std::vector<Attribute> kAttributes = {
    {"kind", {"cummax", "cummin"}}, {"scan_axis"}, {"reverse"}, {"ties", {"first", "last"}}};

const Registration indices({.name = "scan_indices",
                            .tensors = {"x", "indices"},
                            .attributes = kAttributes,
                            .elements = kFloats,
                            .bind = bind});

const Registration with_indices({.name = "scan_with_indices",
                                 .tensors = {"x", "y", "indices"},
                                 .attributes = kAttributes,
                                 .elements = kFloats,
                                 .bind = bind});

}  // namespace
}  // namespace gradplan::scan
