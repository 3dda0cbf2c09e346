// Checks that need the values of indices: they run before anything is written.
#pragma once

#include <atomic>
#include <string>

#include "ffi/kernel.h"
#include "lanes/lanes.h"
#include "memory/threads.h"

namespace gradplan::rows {
using namespace ffi;
using namespace lanes;
using namespace memory;

// One axis of indices, as the caller laid it out.
template <class I>
struct IndexView {
  const I* data;
  int64_t stride;
  int64_t count;

  explicit IndexView(const Operand& t)
      : data(t.as<const I>()), stride(t.stride[0]), count(t.shape[0]) {}
  GP_INLINE int64_t operator[](int64_t i) const { return data[i * stride]; }
};

// The rows that indices may name. padding < 0: no row is padding.
struct IndexRange {
  int64_t rows;
  int64_t padding = -1;

  GP_INLINE bool selects(int64_t index) const {
    // One unsigned comparison refuses negative indices as well.
    return (uint64_t(index) < uint64_t(rows)) & (index != padding);
  }
  GP_INLINE bool offends(int64_t index) const {
    return (uint64_t(index) >= uint64_t(rows)) & ((padding < 0) | (index != padding));
  }
};

inline const std::vector<std::string> kBounds = {"skip", "raise"};

// What a plan says about its indices.
struct IndexRule {
  std::string plan;  // both for messages
  std::string ids;
  IndexRange range;
  bool raise = false;  // or skip what is outside
};

// The rule of a plan with the attribute `bounds` and, where it has one, `padding_idx`; `table` is
// the tensor whose rows are named.
inline IndexRule index_rule(const Problem& problem, const std::string& ids,
                            const std::string& table) {
  IndexRule rule;
  rule.plan = problem.plan;
  rule.ids = ids;
  rule.range.rows = problem.shape[problem.at(table)][0];
  if (problem.has("padding_idx")) rule.range.padding = problem.integer("padding_idx");
  rule.raise = problem.text("bounds") == "raise";
  return rule;
}

// The smallest i in [0, count) with test(i), or count. A block is first tested as a whole: without
// branches, that loop vectorizes.
template <class Test>
int64_t find_first(int64_t count, int64_t bytes, const Test& test) {
  constexpr int64_t kTested = 4096;
  std::atomic<int64_t> first{count};
  parallel_for((count + kTested - 1) / kTested, 4, bytes, [&](int64_t block, int64_t end) {
    const Test own = test;  // in registers
    for (; block < end; ++block) {
      int64_t i = block * kTested;
      const int64_t stop = std::min(i + kTested, count);
      if (i >= first.load(std::memory_order_relaxed)) return;
      bool any = false;
      for (int64_t k = i; k < stop; ++k) any |= own(k);
      if (!any) continue;
      while (!own(i)) ++i;
      int64_t known = first.load(std::memory_order_relaxed);
      while (i < known && !first.compare_exchange_weak(known, i, std::memory_order_relaxed)) {
      }
      return;
    }
  });
  return first.load(std::memory_order_relaxed);
}

// The same for test(value, i), where value(i) is an index. They mostly lie side by side.
template <class I, class Test>
int64_t find_first_index(const IndexView<I>& ids, int64_t count, const Test& test) {
  const auto find = [&](auto value) {
    return find_first(count, ids.count * int64_t(sizeof(I)),
                      [value, test](int64_t i) { return test(value, i); });
  };
  if (ids.stride == 1) return find([data = ids.data](int64_t i) { return int64_t(data[i]); });
  return find([ids](int64_t i) { return ids[i]; });
}

// "segment_ids[3] = 7"
template <class I>
std::string describe_index(const IndexRule& rule, const IndexView<I>& ids, int64_t position) {
  return rule.ids + "[" + std::to_string(position) + "] = " + std::to_string(ids[position]);
}

template <class I>
void check_bounds(const IndexRule& rule, const IndexView<I>& ids) {
  if (!rule.raise) return;
  const int64_t at = find_first_index(
      ids, ids.count,
      [range = rule.range](const auto& value, int64_t i) { return range.offends(value(i)); });
  if (at == ids.count) return;
  throw PlanError("IndexOutOfRange", rule.plan + ": " + describe_index(rule, ids, at) +
                                         ": expected an index in [0, " +
                                         std::to_string(rule.range.rows) + ")");
}

template <class I>
void check_sorted(const IndexRule& rule, const IndexView<I>& ids) {
  const int64_t pairs = std::max<int64_t>(ids.count - 1, 0);
  const int64_t at = find_first_index(
      ids, pairs, [](const auto& value, int64_t i) { return value(i + 1) < value(i); });
  if (at == pairs) return;
  throw PlanError("InvalidProblem", rule.plan + ": " + describe_index(rule, ids, at + 1) +
                                        " after " + describe_index(rule, ids, at) +
                                        ": expected ids in ascending order");
}

}  // namespace gradplan::rows
