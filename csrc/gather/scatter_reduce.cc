// scatter_reduce: sums, means, products and extremes by index along an axis.
#include "gather/reduce.h"
#include "gather/row_problem.h"
#include "gather/scatter_lines.h"
#include "lanes/operations.h"
#include "rows/segment_reduction.h"

namespace gradplan::gather {
namespace {

// Which operation is looked at for every member: a branch that never changes, instead of four
// copies of everything.
struct AnyReducer {
  Reduce kind;

  template <class C>
  C identity() const {
    switch (kind) {
      case Reduce::kProd: return Product::identity<C>();
      case Reduce::kAmax: return Maximum::identity<C>();
      case Reduce::kAmin: return Minimum::identity<C>();
      default: return Sum::identity<C>();
    }
  }
  template <class C>
  GP_INLINE C combine(C a, C b) const {
    switch (kind) {
      case Reduce::kProd: return Product::apply(a, b);
      case Reduce::kAmax: return Maximum::apply(a, b);
      case Reduce::kAmin: return Minimum::apply(a, b);
      default: return Sum::apply(a, b);
    }
  }
};

// What a place without members is, if nothing is said.
double nothing(Reduce kind) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case Reduce::kProd: return 1;
    case Reduce::kAmax: return -infinity;
    case Reduce::kAmin: return infinity;
    default: return 0;
  }
}

rows::RowReducers row_reducers_of(Reduce kind) {
  switch (kind) {
    case Reduce::kMean: return rows::row_means();
    case Reduce::kProd: return rows::row_products();
    case Reduce::kAmax: return rows::row_maxima(nothing(kind));
    case Reduce::kAmin: return rows::row_minima(nothing(kind));
    default: return rows::row_sums();
  }
}

void reduce_lines(const AxisProblem& p, Reduce kind, bool include_self, const LineParts& parts,
                  const Operand* t, const Operand& initial, char* workspace) {
  visit_element(p.element, [&](auto* element) {
    using E = std::remove_pointer_t<decltype(element)>;
    using C = ComputeOf<E>;
    const AnyReducer reducer{kind};
    const E* start = initial.as<const E>();
    const C empty = C(nothing(kind));
    const auto finish = [=](C total, int64_t count, int64_t at) {
      if (count == 0) return start == nullptr ? empty : C(load_element(start + at));
      if (start != nullptr && include_self) {
        total = reducer.combine(C(load_element(start + at)), total);
        ++count;
      }
      return kind == Reduce::kMean ? total / C(count) : total;
    };
    visit_index(t[p.ids].dtype, [&](auto* index) {
      using I = std::remove_pointer_t<decltype(index)>;
      LineReduction<E, I, AnyReducer>(p, parts, t, reducer, start == nullptr ? nullptr : &initial)
          .run(workspace, finish);
    });
  });
}

void copy(const Operand& from, const Operand& to) {
  Dimensions all;
  for (int d = 0; d < to.rank; ++d) all.add(to.shape[d], Offsets{to.stride[d], from.stride[d]});
  all.arrange(0);
  visit_element(to.dtype, [&](auto* element) {
    using E = std::remove_pointer_t<decltype(element)>;
    parallel_for(all.count(), 4096, all.count() * 2 * int64_t(sizeof(E)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const Offsets at = all.offsets(i);
                     store_element(to.as<E>() + at[0], load_element(from.as<const E>() + at[1]));
                   }
                 });
  });
}

BoundKernel bind_reduce(const Problem& problem) {
  AxisProblem p(problem, "x", "output");
  const int initial = problem.at("initial");
  const Reduce kind = reduce_of(problem);
  const bool include_self = problem.flag("include_self");
  const RowProblem as_rows(p);
  rows::SegmentReduction op{.values = p.members,
                            .ids = p.ids,
                            .results = p.table,
                            .rule = as_rows.rule(p),
                            .reducers = row_reducers_of(kind)};
  const BoundKernel rows = rows::bind_segment_reduction(as_rows.problem(problem), op);
  op.accumulate = true;
  const BoundKernel added = rows::bind_segment_reduction(as_rows.problem(problem), op);
  const LineParts parts(p);
  const bool none = count_elements(problem.shape[p.table]) == 0;
  return {[=](const Operand* t, char* workspace) {
            check_indices(p, t[p.ids]);
            if (none) return;
            const bool from_start = t[initial].data != nullptr;
            if (p.n != 0 && !from_start && as_rows.run(p, t, workspace, rows)) return;
            // A mean counts what it starts from, and what does not take part is not added to.
            if (p.n != 0 && from_start && include_self && kind != Reduce::kMean &&
                as_rows.run(p, t, workspace, added, [&] { copy(t[initial], t[p.table]); }))
              return;
            reduce_lines(p, kind, include_self, parts, t, t[initial], workspace);
          },
          std::max({rows.workspace_size, added.workspace_size, parts.bytes()})};
}

const Registration scatter_reduce(
    {.name = "scatter_reduce",
     .tensors = {"x", "indices", "initial", "output"},
     .attributes = {{"axis"}, {"reduce", kReduces}, {"include_self"}, {"bounds", rows::kBounds}},
     .elements = kFloats,
     .bind = bind_reduce});

}  // namespace
}  // namespace gradplan::gather
