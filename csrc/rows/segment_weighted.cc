// segment_weighted and unsorted_segment_weighted: sums and means of rows, each times its weight;
// and their gradients.
#include "rows/member_rules.h"
#include "softmax/row_reduction.h"

namespace gradplan::rows {
namespace {

// A tensor with one number for each row.
template <class C>
struct Numbers {
  const Operand* t = nullptr;

  GP_INLINE C operator[](int64_t n) const {
    const int64_t at = n * t->stride[0];
    if constexpr (std::is_same_v<C, double>) {
      return t->as<double>()[at];
    } else {
      if (t->dtype == Dtype::kF32) return t->as<float>()[at];
      if (t->dtype == Dtype::kF16) return load_element(t->as<F16>() + at);
      return load_element(t->as<BF16>() + at);
    }
  }
  void store(int64_t n, C value) const {
    const int64_t at = n * t->stride[0];
    if constexpr (std::is_same_v<C, double>) {
      store_element(t->as<double>() + at, value);
    } else if (t->dtype == Dtype::kF32) {
      store_element(t->as<float>() + at, value);
    } else if (t->dtype == Dtype::kF16) {
      store_element(t->as<F16>() + at, value);
    } else {
      store_element(t->as<BF16>() + at, value);
    }
  }
};

// v / total; 0 where the total is.
template <class V>
GP_INLINE V unless_nothing(const V& v, const V& total) {
  return select(total == V(ElementOf<V>(0)), V(ElementOf<V>(0)), v / total);
}

// Sums by segment: of products with weights (stage 0), and of the weights themselves (stage 1).
template <class Compute>
struct OfWeights : RuleBase<Compute> {
  using C = Compute;
  using V = Lanes<C>;
  static constexpr bool kBySegment = true;
  Table<C> x;
  Numbers<C> weights;

  template <int k>
  GP_INLINE V take(const State<C>&, const At& at, int64_t n, int64_t) const {
    const V w(weights[n]);
    if constexpr (k == 0)
      return x.load(n, at.column, at.some) * w;
    else
      return w;
  }
  template <int>
  GP_INLINE static V combine(const V& a, const V& b) {
    return a + b;
  }
  void empty(const At& at) const { this->out.store(at.segment, at.column, at.some, V(C(0))); }
  GP_INLINE void prefetch(int64_t n, int64_t c) const { x.prefetch(n, c); }
};

template <class C>
struct WeightedSum : OfWeights<C> {
  static constexpr int kStages = 1;

  GP_INLINE void segment(const State<C>& s, const At& at) const {
    this->out.store(at.segment, at.column, at.some, s.result[0]);
  }
};

template <class C>
struct WeightedMean : OfWeights<C> {
  static constexpr int kStages = 2;

  GP_INLINE void segment(const State<C>& s, const At& at) const {
    this->out.store(at.segment, at.column, at.some, unless_nothing(s.result[0], s.result[1]));
  }
};

// The sum of each segment's weights, to a table of the compute type.
template <class C>
struct WeightTotals : WeightedSum<C> {
  template <int>
  GP_INLINE Lanes<C> take(const State<C>&, const At&, int64_t n, int64_t) const {
    return Lanes<C>(this->weights[n]);
  }
  GP_INLINE void prefetch(int64_t, int64_t) const {}
};

BoundKernel bind_forward(const Problem& problem, bool sorted) {
  const int x = problem.at("input"), w = problem.at("weights"), y = problem.at("output");
  const IndexRule rule = index_rule(problem, "segment_ids", "output");
  const SegmentMembers members{.ids = problem.at("segment_ids"),
                               .members = problem.shape[x][0],
                               .rows = rule.range.rows,
                               .width = problem.shape[x][1],
                               .element = problem.element(),
                               .rule = rule,
                               .sorted = sorted};
  const auto set = [=](auto made, const Operand* t) {
    made.x.t = &t[x];
    made.weights.t = &t[w];
    made.out.t = &t[y];
    return made;
  };
  if (problem.text("kind") == "sum")
    return bind_members<WeightedSum>(members, y, [=](const Operand* t, auto* tag) {
      return set(WeightedSum<std::remove_pointer_t<decltype(tag)>>(), t);
    });
  return bind_members<WeightedMean>(members, y, [=](const Operand* t, auto* tag) {
    return set(WeightedMean<std::remove_pointer_t<decltype(tag)>>(), t);
  });
}

// The gradients row by row. Those of a mean know the totals of the weights and the results.
template <class C>
struct RowGradients {
  using V = Lanes<C>;
  Table<C> dy, x, y, dx;
  Numbers<C> weights, dw;
  const C* totals;  // null: of a sum
  int64_t width;

  void skip(int64_t n) const {
    for (int64_t c = 0; c < width; c += kLanes)
      dx.store(n, c, int(std::min<int64_t>(kLanes, width - c)), V(C(0)));
    dw.store(n, C(0));
  }

  GP_INLINE V product(int64_t n, int64_t segment, int64_t c, int some) const {
    V g = dy.load(segment, c, some), v = x.load(n, c, some);
    if (totals != nullptr) {
      g = unless_nothing(g, V(totals[segment]));
      v = v - y.load(segment, c, some);
    }
    dx.store(n, c, some, V(weights[n]) * g);
    return g * v;
  }
  void row(int64_t n, int64_t segment) const {
    const C dot = softmax::reduce_row<Sum, C>(
        width,
        [&](int64_t c, int some) GP_INLINE_LAMBDA {
          return select(first_lanes<C>(some), product(n, segment, c, some), Sum::identity<V>());
        },
        [&](int64_t c) GP_INLINE_LAMBDA { return product(n, segment, c, kLanes); });
    dw.store(n, width == 0 ? C(0) : dot);
  }
  // A row of one element: the reduction of one product is that product.
  GP_INLINE void number(int64_t n, int64_t segment) const {
    C g = Numbers<C>{dy.t}[segment], v = Numbers<C>{x.t}[n];
    if (totals != nullptr) {
      g = totals[segment] == C(0) ? C(0) : g / totals[segment];
      v = v - Numbers<C>{y.t}[segment];
    }
    Numbers<C>{dx.t}.store(n, weights[n] * g);
    dw.store(n, g * v);
  }
  void prefetch(int64_t segment) const {
    for (int64_t c = 0; c < width; c += kLanes) {
      dy.prefetch(segment, c);
      if (totals != nullptr) y.prefetch(segment, c);
    }
  }
};

template <class C, class I>
void write_rows(const RowGradients<C>& of, const IndexView<I>& ids, const IndexRange& range,
                int64_t item) {
  constexpr int64_t kEarly = 8;
  const int64_t bytes = ids.count * (3 * of.width * item + int64_t(sizeof(I)));
  const int64_t grain = std::max<int64_t>(1, (1 << 12) / std::max<int64_t>(of.width, 1));
  parallel_for(ids.count, grain, bytes, [&](int64_t n, int64_t end) {
    for (; n < end; ++n) {
      const int64_t early = ids[std::min(n + kEarly, ids.count - 1)];
      if (range.selects(early)) of.prefetch(early);
      const int64_t id = ids[n];
      if (!range.selects(id))
        of.skip(n);
      else if (of.width == 1)
        of.number(n, id);
      else
        of.row(n, id);
    }
  });
}

// Where everything is, and the totals of the weights that a mean needs first.
struct Backward {
  int dy, x, w, y, ids, dx, dw;
  IndexRule rule;
  Dtype element;
  int64_t members, width;
  BoundKernel totals;  // of a mean: its operands are weights, ids and the totals

  Dtype compute() const { return element == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32; }
  int64_t totals_size() const { return (rule.range.rows * item_size(compute()) + 63) / 64 * 64; }

  void add_up(const Operand* t, char* workspace) const {
    const int64_t of_weights[] = {members, 1}, steps[] = {t[w].stride[0], 1};
    const int64_t of_totals[] = {rule.range.rows, 1}, one[] = {1, 1};
    const Operand given[] = {{t[w].data, element, 2, of_weights, steps},
                             t[ids],
                             {workspace, compute(), 2, of_totals, one}};
    totals.launch(given, workspace + totals_size());
  }

  void run(const Operand* t, char* workspace) const {
    const bool mean = y >= 0;
    visit_index(t[ids].dtype, [&](auto* i) {
      const IndexView<std::remove_pointer_t<decltype(i)>> view(t[ids]);
      check_bounds(rule, view);
      if (mean && rule.range.rows > 0) add_up(t, workspace);
      visit_compute(element, [&](auto* tag) {
        using C = std::remove_pointer_t<decltype(tag)>;
        RowGradients<C> of{.dy = {&t[dy]},
                           .x = {&t[x]},
                           .dx = {&t[dx]},
                           .weights = {&t[w]},
                           .dw = {&t[dw]},
                           .totals = mean ? reinterpret_cast<const C*>(workspace) : nullptr,
                           .width = width};
        if (mean) of.y.t = &t[y];
        write_rows(of, view, rule.range, item_size(element));
      });
    });
  }
};

BoundKernel bind_backward(const Problem& problem) {
  const int dx = problem.at("d_input");
  Backward b{.dy = problem.at("d_output"),
             .x = problem.at("input"),
             .w = problem.at("weights"),
             .y = problem.at("output"),
             .ids = problem.at("segment_ids"),
             .dx = dx,
             .dw = problem.at("d_weights"),
             .rule = index_rule(problem, "segment_ids", "d_output"),
             .element = problem.element(),
             .members = problem.shape[dx][0],
             .width = problem.shape[dx][1],
             .totals = {}};
  int64_t workspace_size = 0;
  if (problem.text("kind") == "mean") {
    IndexRule checked = b.rule;
    checked.raise = false;
    const SegmentMembers members{.ids = 1,
                                 .members = b.members,
                                 .rows = b.rule.range.rows,
                                 .width = 1,
                                 .element = b.compute(),
                                 .rule = checked};
    b.totals = bind_members<WeightTotals>(members, 2, [](const Operand* t, auto* tag) {
      WeightTotals<std::remove_pointer_t<decltype(tag)>> made;
      made.weights.t = &t[0];
      made.out.t = &t[2];
      return made;
    });
    workspace_size = b.totals_size() + b.totals.workspace_size;
  }
  return {[b = std::move(b)](const Operand* t, char* workspace) { b.run(t, workspace); },
          workspace_size};
}

const std::vector<Attribute> kAttributes = {{"kind", {"sum", "mean"}}, {"bounds", kBounds}};
const std::vector<std::string> kTensors = {"input", "weights", "segment_ids", "output"};
const Registration sorted({.name = "segment_weighted",
                           .tensors = kTensors,
                           .attributes = kAttributes,
                           .elements = kFloats,
                           .bind = [](const Problem& p) { return bind_forward(p, true); }});
const Registration unsorted({.name = "unsorted_segment_weighted",
                             .tensors = kTensors,
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = [](const Problem& p) { return bind_forward(p, false); }});
const Registration backward({.name = "segment_weighted_backward",
                             .tensors = {"d_output", "input", "weights", "output", "segment_ids",
                                         "d_input", "d_weights"},
                             .attributes = kAttributes,
                             .elements = kFloats,
                             .bind = bind_backward});

}  // namespace
}  // namespace gradplan::rows
