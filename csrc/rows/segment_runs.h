// Who the members of a row are: sorted keys, cut into tasks and runs.
#pragma once

#include <atomic>

#include "rows/index_check.h"
#include "rows/index_sort.h"
#include "rows/row_reduction.h"

namespace gradplan::rows {

// Sources of sorted keys: key(i) never decreases, position(i) is the i-th member's row of the
// input.

// Indices that the caller sorted, without the out-of-range ones at both ends.
template <class I>
struct SortedIds {
  IndexView<I> ids;
  int64_t first;
  GP_INLINE int64_t key(int64_t i) const { return ids[first + i]; }
  GP_INLINE int64_t position(int64_t i) const { return first + i; }
};

template <class K>
struct SortedPositions {
  const SortEntry<K>* entry;
  GP_INLINE int64_t key(int64_t i) const { return int64_t(entry[i].key); }
  GP_INLINE int64_t position(int64_t i) const { return int64_t(entry[i].payload); }
};

// The first i in [begin, end) with key(i) >= key; near to begin it is found at once.
template <class Source>
int64_t lower_bound(const Source& source, int64_t begin, int64_t end, int64_t key) {
  int64_t step = 1;
  while (begin + step <= end && source.key(begin + step - 1) < key) {
    begin += step;
    step *= 2;
  }
  end = std::min(end, begin + step - 1);
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (source.key(middle) < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// A place between two rows: `member` is the first member that belongs to `row` or a later one.
struct Cut {
  int64_t row, member;
};

// Rows and members in one line, each row before its members; the place of the first row at or after
// `distance`. Rows cost a write and members a read, so equal distances are equal work. Where empty
// rows are not touched, the line consists of members alone.
template <class Source>
Cut cut_at(const Source& source, int64_t members, bool count_rows, int64_t distance) {
  int64_t low = 0, high = std::min(members, distance);
  if (!count_rows) {
    low = high;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (middle + source.key(middle) + 1 < distance) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const int64_t row = count_rows ? distance - low : low == 0 ? 0 : source.key(low - 1) + 1;
  return {row, lower_bound(source, low, members, row)};
}

struct LongRun {
  int64_t row, begin, end, first_block;
  int64_t blocks() const { return (end - begin + kRowBlock - 1) / kRowBlock; }
};

// Appended to by all threads, in no particular order.
struct LongRuns {
  LongRun* run;
  std::atomic<int64_t> count{0};
  void add(const LongRun& r) { run[count.fetch_add(1, std::memory_order_relaxed)] = r; }
};

// Fills the batch with whole runs from [member, end), which holds whole runs, and returns the first
// member behind them. No run at all: the first one is longer than a batch. `total` members may be
// looked at for prefetching. Free of branches that depend on keys: the ends of short runs are as
// good as random.
template <class Source>
int64_t fill_batch(const Source& source, int64_t member, int64_t end, int64_t total,
                   int64_t row_stride, Batch& batch) {
  const int count = int(std::min<int64_t>(kBatch, end - member));
  int64_t key = source.key(member);
  int runs = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t next = i + 1 < count ? source.key(member + i + 1) : -1;
    batch.offset[i] = source.position(member + i) * row_stride;
    batch.row[runs] = key;
    batch.end[runs] = i + 1;
    batch.last[i] = next != key;
    runs += next != key;
    key = next;
  }
  // The last one is whole only if nothing follows.
  const int64_t behind = member + count;
  if (behind < end && source.key(behind) == batch.row[runs - 1]) --runs;
  batch.runs = runs;
  for (int i = 0; i < kAhead; ++i)
    batch.offset[count + i] = source.position(std::min(behind + i, total - 1)) * row_stride;
  return runs == 0 ? member : member + batch.end[runs - 1];
}

}  // namespace gradplan::rows
