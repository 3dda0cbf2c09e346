// segment_with_indices and unsorted_segment_with_indices: extremes, and where they come from.
#include "rows/member_rules.h"

namespace gradplan::rows {
namespace {

// An index for each segment and column.
struct IndexTable {
  const Operand* t = nullptr;

  void put(int64_t row, int64_t column, int64_t value) const {
    const int64_t at = row * t->stride[0] + column * t->stride[1];
    if (t->dtype == Dtype::kI32)
      t->as<int32_t>()[at] = int32_t(value);
    else
      t->as<int64_t>()[at] = value;
  }
};

// The extreme (stage 0), the block of the first or last member that is it (stage 1), and there its
// place. A minimum is the maximum of the negatives, and what is last in blocks is first in the
// negatives of their numbers.
template <class Compute>
struct ExtremeWithIndex : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr int kStages = 2;
  static constexpr bool kBlockNumber = true;
  Table<C> x;
  IndexTable indices;
  C sign;     // -1: the minimum
  bool last;  // of equal ones

  GP_INLINE V value(const At& at, int64_t n) const {
    return x.load(n, at.column, at.some) * V(sign);
  }
  GP_INLINE auto matches(const State<C>& s, const V& v) const {
    return (v == s.result[0]) | ((v != v) & (s.result[0] != s.result[0]));
  }
  GP_INLINE C number(int64_t block) const { return C(last ? -block : block); }

  template <int k>
  GP_INLINE V take(const State<C>& s, const At& at, int64_t n, int64_t block) const {
    const V v = value(at, n);
    if constexpr (k == 0) return v;
    return select(matches(s, v), V(number(block)), V(-kMinusInfinity<C>));
  }
  template <int k>
  GP_INLINE static V combine(const V& a, const V& b) {
    if constexpr (k == 0)
      return Maximum::apply(a, b);
    else
      return select(b < a, b, a);
  }
  GP_INLINE void members(const State<C>& s, const At& at, const int64_t* n, int count,
                         int64_t block) const {
    const auto mine = s.result[1] == V(number(block));
    auto open = mine;
    V place(C(-1));
    for (int k = 0; k < count; ++k) {
      const int i = last ? count - 1 - k : k;
      const auto here = matches(s, value(at, n[i])) & open;
      place = select(here, V(C(i)), place);
      open = open & ~here;
    }
    alignas(64) C of_lane[kLanes];
    place.store(of_lane);
    for (int l = 0; l < at.some; ++l)
      if (of_lane[l] >= C(0)) indices.put(at.segment, at.column + l, n[int(of_lane[l])]);
    if (block == 0) this->out.store(at.segment, at.column, at.some, s.result[0] * V(sign));
  }
  void skip(const At&, int64_t) const {}
  GP_INLINE void prefetch(int64_t n, int64_t c) const { x.prefetch(n, c); }

  // What segments without members are: all of them, before the others are written.
  void fill(C value, int64_t rows, int64_t width, int64_t nowhere) const {
    parallel_for(rows, 16, rows * width * 12, [&](int64_t row, int64_t end) {
      for (; row < end; ++row) {
        for (int64_t c = 0; c < width; c += kLanes)
          this->out.store(row, c, int(std::min<int64_t>(kLanes, width - c)), V(value));
        for (int64_t c = 0; c < width; ++c) indices.put(row, c, nowhere);
      }
    });
  }
};

BoundKernel bind(const Problem& problem, bool sorted) {
  const int x = problem.at("input"), y = problem.at("output"), places = problem.at("indices");
  const IndexRule rule = index_rule(problem, "segment_ids", "output");
  const int64_t rows = rule.range.rows, count = problem.shape[x][0], width = problem.shape[x][1];
  const SegmentMembers members{.ids = problem.at("segment_ids"),
                               .members = count,
                               .rows = rows,
                               .width = width,
                               .element = problem.element(),
                               .rule = rule,
                               .sorted = sorted};
  const double fill = problem.real("fill");
  const bool minimum = problem.text("kind") == "min", last = problem.text("ties") == "last";
  return bind_members<ExtremeWithIndex>(members, y, [=](const Operand* t, auto* tag) {
    using C = std::remove_pointer_t<decltype(tag)>;
    ExtremeWithIndex<C> made;
    made.x.t = &t[x];
    made.out.t = &t[y];
    made.indices.t = &t[places];
    made.sign = C(minimum ? -1 : 1);
    made.last = last;
    made.fill(C(fill), rows, width, count);
    return made;
  });
}

const std::vector<std::string> kTensors = {"input", "segment_ids", "output", "indices"};
const std::vector<Attribute> kAttributes = {
    {"kind", {"max", "min"}}, {"fill"}, {"ties", {"first", "last"}}, {"bounds", kBounds}};
const Registration sorted({.name = "segment_with_indices",
                           .tensors = kTensors,
                           .attributes = kAttributes,
                           .elements = kFloats,
                           .bind = [](const Problem& p) { return bind(p, true); }});
const Registration unsorted({.name = "unsorted_segment_with_indices",
                             .tensors = kTensors,
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = [](const Problem& p) { return bind(p, false); }});

}  // namespace
}  // namespace gradplan::rows
