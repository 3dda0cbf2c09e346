#include "gather/axis_indices.h"

#include <atomic>

namespace gradplan::gather {
namespace {

template <class I>
bool any_offends(const Operand& ids, IndexRange range) {
  Dimensions all;
  for (int d = 0; d < ids.rank; ++d)  // what is repeated is looked at once
    all.add(ids.stride[d] == 0 ? std::min<int64_t>(ids.shape[d], 1) : ids.shape[d],
            Offsets{ids.stride[d]});
  all.arrange(0);
  const int64_t count = all.count();
  if (count == 0) return false;
  const int64_t inner = all.extent.empty() ? 1 : all.extent.back();
  const int64_t stride = all.extent.empty() ? 1 : all.stride.back()[0];
  Dimensions outer = all;
  if (!outer.extent.empty()) {
    outer.extent.pop_back();
    outer.stride.pop_back();
  }
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = (inner + kPiece - 1) / kPiece;
  std::atomic<bool> found{false};
  parallel_for(count / inner * pieces, 4, count * int64_t(sizeof(I)),
               [&](int64_t task, int64_t end) {
                 bool any = false;
                 for (; task < end; ++task) {
                   const int64_t begin = task % pieces * kPiece;
                   const int64_t stop = std::min(begin + kPiece, inner);
                   const I* at = ids.as<const I>() + outer.offsets(task / pieces)[0];
                   const uint64_t rows = uint64_t(range.rows);
                   if (stride == 1) {
                     for (int64_t i = begin; i < stop; ++i) any |= uint64_t(int64_t(at[i])) >= rows;
                   } else {
                     for (int64_t i = begin; i < stop; ++i)
                       any |= uint64_t(int64_t(at[i * stride])) >= rows;
                   }
                 }
                 if (any) found.store(true, std::memory_order_relaxed);
               });
  return found.load(std::memory_order_relaxed);
}

// Says which one is the first, in the order of the axes.
template <class I>
[[noreturn]] void refuse(const AxisProblem& p, const Operand& ids) {
  Shape at(size_t(ids.rank), 0);
  for (;;) {
    int64_t offset = 0;
    for (int d = 0; d < ids.rank; ++d) offset += at[d] * ids.stride[d];
    const int64_t id = ids.as<const I>()[offset];
    if (p.range().offends(id)) {
      std::string where;
      for (int64_t i : at) where += (where.empty() ? "" : ", ") + std::to_string(i);
      throw PlanError("IndexOutOfRange",
                      p.plan + ": indices[" + where + "] = " + std::to_string(id) +
                          ": expected an index in [0, " + std::to_string(p.size) + ")");
    }
    for (int d = ids.rank - 1; d >= 0; --d) {
      if (++at[d] < ids.shape[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace

void check_indices(const AxisProblem& problem, const Operand& ids) {
  if (!problem.raise) return;
  visit_index(ids.dtype, [&](auto* tag) {
    using I = std::remove_pointer_t<decltype(tag)>;
    if (any_offends<I>(ids, problem.range())) refuse<I>(problem, ids);
  });
}

}  // namespace gradplan::gather
