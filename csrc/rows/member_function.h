// What happens to the numbers of a segment's members: reductions one after the other, each of which
// may know the results of those before it, and then results by segment or by member.
//
// A rule R has, for a compute type C and V = Lanes<C>:
//   kStages                    how many reductions there are
//   kBySegment                 results are [S, D]; else [N, D]
//   kOthers                    a member needs the (one) reduction of the others: State has those of
//                              earlier and later blocks, in place of the result
//   kBlockNumber               the last stage finds a block; in a run of one block it is number 0
//   begin(state, at)           what the segment's own tensors say
//   take<stage>(state, at, n, block) what member n contributes; `block` is the number of its block
//   combine<stage>(a, b)       of an earlier result and a later one
//   segment(state, at)         writes the segment's result
//   members(state, at, position, count, block)  writes a block's results
//   empty(at), skip(at, n)     of a segment without members; of a row without segment
#pragma once

#include "lanes/visit.h"
#include "memory/access.h"
#include "rows/segment_members.h"

namespace gradplan::rows {

// A tensor of two axes, sixteen columns at a time. The element type is looked at for every vector:
// a branch that never changes, instead of three copies of everything.
template <class C>
struct Table {
  const Operand* t = nullptr;

  // (Of rows of one element the first lane alone: to collect sixteen takes five times as long.)
  GP_INLINE Lanes<C> load(int64_t row, int64_t column, int some) const {
    return with([&](auto* e) {
      const auto* from = place(e, row, column);
      if (some > 1) return load_any(from, stride(), some, C(0));
      Lanes<C> one(C(0));
      one.part[0][0] = load_element(from);
      return one;
    });
  }
  GP_INLINE void store(int64_t row, int64_t column, int some, const Lanes<C>& v) const {
    with([&](auto* e) {
      auto* to = place(e, row, column);
      if (some > 1)
        store_any(to, stride(), some, v);
      else
        store_element(to, v.part[0][0]);
    });
  }
  void prefetch(int64_t row, int64_t column) const {
    const int64_t item = item_size(t->dtype);
    const char* p = t->as<const char>() + (row * t->stride[0] + column * stride()) * item;
    __builtin_prefetch(p, 0, 2);
  }

 private:
  template <class F>
  GP_INLINE auto with(const F& f) const {
    if constexpr (std::is_same_v<C, double>) {
      return f(static_cast<double*>(nullptr));
    } else {
      if (t->dtype == Dtype::kF32) return f(static_cast<float*>(nullptr));
      if (t->dtype == Dtype::kF16) return f(static_cast<F16*>(nullptr));
      return f(static_cast<BF16*>(nullptr));
    }
  }
  GP_INLINE int64_t stride() const { return t->stride[1]; }
  template <class E>
  GP_INLINE E* place(E*, int64_t row, int64_t column) const {
    return t->as<E>() + row * t->stride[0] + column * stride();
  }
};

// Where a rule is at work: a segment, and up to sixteen columns.
struct At {
  int64_t segment, column;
  int some;
  int64_t members;
};

template <class C>
struct State {
  Lanes<C> own[2];     // from begin()
  Lanes<C> result[3];  // of the stages
  Lanes<C> early, late;
};

template <class R>
class MemberFunctionOf final : public MemberFunction {
  using C = typename R::C;
  using V = Lanes<C>;

 public:
  MemberFunctionOf(const R& rule, const Operand* shape, char* partial, int64_t runs)
      : rule_(rule),
        width_(shape->shape[1]),
        of_runs_(reinterpret_cast<C*>(partial)),
        of_blocks_(of_runs_ + R::kStages * runs * partial_width(width_)),
        runs_(runs) {}

  int64_t write(const Batch& batch, int64_t row, Columns columns) const override {
    int begin = 0;
    for (int r = 0; r < batch.runs; ++r) {
      const int64_t segment = batch.row[r];
      const int end = batch.end[r];
      if (R::kBySegment && row < segment) empty(row, segment, columns);
      row = segment + 1;
      const int64_t* position = batch.offset + begin;
      const int count = end - begin;
      for (int64_t c = columns.begin; c < columns.end; c += 64)
        for (int i = 0; i < count; ++i) rule_.prefetch(position[i + kAhead / 2], c);
      for (int64_t c = columns.begin; c < columns.end; c += kLanes)
        whole(at(segment, c, columns, count), position, count);
      begin = end;
    }
    return row;
  }

  void empty(int64_t row, int64_t end, Columns columns) const override {
    if constexpr (R::kBySegment)
      for (; row < end; ++row)
        for (int64_t c = columns.begin; c < columns.end; c += kLanes)
          rule_.empty(at(row, c, columns, 0));
  }

  void skip(int64_t position) const override {
    if constexpr (!R::kBySegment)
      for (int64_t c = 0; c < width_; c += kLanes) rule_.skip(at(0, c, {0, width_}, 0), position);
  }

  int stages() const override { return R::kStages; }

  void reduce(int stage, const BlockOfRun& block, Columns columns) const override {
    for_each_tile(block.segment, columns, block.members, [&](const At& at) {
      State<C> state;
      known(state, at, block.run, stage);
      with_stage(stage, [&](auto k) {
        reduce_block<k.value>(state, at, block.position, block.count, block.number)
            .store(of_block(block.place, at.column));
      });
    });
  }

  void fold(int stage, const LongRun& run, int64_t number, Columns columns) const override {
    for_each_tile(run.row, columns, 0, [&](const At& at) {
      with_stage(stage, [&](auto k) {
        if constexpr (R::kOthers) {
          others(run, at.column);
        } else {
          V total = V::load(of_block(run.first_block, at.column));
          for (int64_t b = 1; b < run.blocks(); ++b)
            total = rule_.template combine<k.value>(
                total, V::load(of_block(run.first_block + b, at.column)));
          total.store(of_run(stage, number, at.column));
        }
      });
    });
  }

  void write_segment(const LongRun& run, int64_t number, Columns columns) const override {
    if constexpr (R::kBySegment)
      for_each_tile(run.row, columns, run.end - run.begin, [&](const At& at) {
        State<C> state;
        known(state, at, number, R::kStages);
        rule_.segment(state, at);
      });
  }

  void write_block(const BlockOfRun& block, Columns columns) const override {
    if constexpr (!R::kBySegment)
      for_each_tile(block.segment, columns, block.members, [&](const At& at) {
        State<C> state;
        known(state, at, block.run, R::kStages);
        if constexpr (R::kOthers) {
          state.early = V::load(of_block(block.place, at.column));
          state.late = V::load(of_block(block.place, at.column, 1));
        }
        rule_.members(state, at, block.position, block.count, block.number);
      });
  }

 private:
  static At at(int64_t segment, int64_t column, Columns columns, int64_t members) {
    return {segment, column, int(std::min<int64_t>(kLanes, columns.end - column)), members};
  }
  template <class F>
  void for_each_tile(int64_t segment, Columns columns, int64_t members, const F& f) const {
    for (int64_t c = columns.begin; c < columns.end; c += kLanes)
      f(at(segment, c, columns, members));
  }
  template <class F>
  static void with_stage(int stage, const F& f) {
    if constexpr (R::kStages > 0) {
      if (stage == 0) f(std::integral_constant<int, 0>{});
    }
    if constexpr (R::kStages > 1) {
      if (stage == 1) f(std::integral_constant<int, 1>{});
    }
    if constexpr (R::kStages > 2) {
      if (stage == 2) f(std::integral_constant<int, 2>{});
    }
  }

  C* of_run(int stage, int64_t run, int64_t column) const {
    return of_runs_ + (stage * runs_ + run) * partial_width(width_) + column;
  }
  // Where rules need the others, a block has a second place.
  C* of_block(int64_t place, int64_t column, int which = 0) const {
    constexpr int kPlaces = R::kOthers ? 2 : 1;
    return of_blocks_ + (place * kPlaces + which) * partial_width(width_) + column;
  }

  // What is known of a long run before a stage.
  void known(State<C>& state, const At& at, int64_t run, int stage) const {
    rule_.begin(state, at);
    if constexpr (!R::kOthers)
      for (int k = 0; k < stage; ++k) state.result[k] = V::load(of_run(k, run, at.column));
  }

  template <int kStage>
  GP_INLINE V reduce_block(const State<C>& state, const At& at, const int64_t* position, int count,
                           int64_t number) const {
    V total = rule_.template take<kStage>(state, at, position[0], number);
    for (int i = 1; i < count; ++i)
      total = rule_.template combine<kStage>(
          total, rule_.template take<kStage>(state, at, position[i], number));
    return total;
  }

  // A whole segment of up to a batch of members.
  GP_INLINE void whole(const At& at, const int64_t* position, int count) const {
    State<C> state;
    rule_.begin(state, at);
    const auto block_of = [&](int first) { return std::min(kRowBlock, count - first); };
    if constexpr (R::kOthers) {
      V product[kBatch / kRowBlock];
      const int blocks = (count + kRowBlock - 1) / kRowBlock;
      if (blocks > 1)
        for (int b = 0; b < blocks; ++b)
          product[b] =
              reduce_block<0>(state, at, position + b * kRowBlock, block_of(b * kRowBlock), b);
      state.early = rule_.identity();
      for (int b = 0; b < blocks; ++b) {
        state.late = rule_.identity();
        for (int later = blocks - 1; later > b; --later)
          state.late = rule_.template combine<0>(product[later], state.late);
        rule_.members(state, at, position + b * kRowBlock, block_of(b * kRowBlock), b);
        if (b + 1 < blocks) state.early = rule_.template combine<0>(state.early, product[b]);
      }
    } else {
      if constexpr (R::kStages > 0) stage<0>(state, at, position, count);
      if constexpr (R::kStages > 1) stage<1>(state, at, position, count);
      if constexpr (R::kStages > 2) stage<2>(state, at, position, count);
      if constexpr (R::kBySegment)
        rule_.segment(state, at);
      else
        for (int first = 0; first < count; first += kRowBlock)
          rule_.members(state, at, position + first, block_of(first), first / kRowBlock);
    }
  }

  template <int k>
  GP_INLINE void stage(State<C>& state, const At& at, const int64_t* position, int count) const {
    if (R::kBlockNumber && k == R::kStages - 1 && count <= kRowBlock) {
      state.result[k] = V(C(0));
      return;
    }
    V total = reduce_block<k>(state, at, position, std::min(count, kRowBlock), 0);
    for (int first = kRowBlock; first < count; first += kRowBlock)
      total = rule_.template combine<k>(
          total, reduce_block<k>(state, at, position + first, std::min(kRowBlock, count - first),
                                 first / kRowBlock));
    state.result[k] = total;
  }

  // The partial results of a run's blocks become those of the blocks before and behind each.
  void others(const LongRun& run, int64_t column) const {
    const int64_t blocks = run.blocks();
    V late = rule_.identity();
    for (int64_t b = blocks - 1; b >= 0; --b) {
      late.store(of_block(run.first_block + b, column, 1));
      late = rule_.template combine<0>(V::load(of_block(run.first_block + b, column)), late);
    }
    V early = rule_.identity();
    for (int64_t b = 0; b < blocks; ++b) {
      C* place = of_block(run.first_block + b, column);
      const V own = V::load(place);
      early.store(place);
      early = rule_.template combine<0>(early, own);
    }
  }

  const R rule_;
  int64_t width_;
  C* of_runs_;
  C* of_blocks_;
  int64_t runs_;
};

// The kernel of a rule; rule_of(operands, C{}) makes it for a call. `shape` is a tensor [., D].
template <template <class> class R, class RuleOf>
BoundKernel bind_members(SegmentMembers op, int shape, const RuleOf& rule_of) {
  return visit_compute(op.element, [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    using Rule = R<C>;
    op.by_segment = Rule::kBySegment;
    op.per_run = Rule::kStages;
    op.per_block = Rule::kOthers ? 2 : Rule::kStages > 0 ? 1 : 0;
    op.make = [=](const Operand* t, char* partial, int64_t runs,
                  int64_t) -> std::unique_ptr<MemberFunction> {
      return std::make_unique<MemberFunctionOf<Rule>>(rule_of(t, static_cast<C*>(nullptr)),
                                                      &t[shape], partial, runs);
    };
    return bind_segment_members(std::move(op));
  });
}

}  // namespace gradplan::rows
