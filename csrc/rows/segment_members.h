// Functions of the members of a segment that need the whole segment first: softmax, log-sum-exp,
// and the gradients of reductions. Who the members are is known here; what happens to their
// numbers, sixteen columns at a time, is behind virtual functions (member_function.h), one call per
// batch.
#pragma once

#include <functional>
#include <memory>

#include "rows/index_check.h"
#include "rows/segment_runs.h"

namespace gradplan::rows {

// A block of a run that is longer than a batch: members [first, first + count) of the segment,
// whose positions are at `position`.
struct BlockOfRun {
  int64_t run;  // which of the long runs
  int64_t segment;
  int64_t members;  // of the whole segment
  int64_t number;   // of the block in its run
  int64_t place;    // of its partial results
  const int64_t* position;
  int count;
};

class MemberFunction {
 public:
  virtual ~MemberFunction() = default;

  // Whole segments, in the columns; where results go by segment, those without members as well,
  // from `row` on. Returns the row behind the last.
  virtual int64_t write(const Batch& batch, int64_t row, Columns columns) const = 0;
  virtual void empty(int64_t row, int64_t end, Columns columns) const = 0;
  // A row of the input that belongs to no segment.
  virtual void skip(int64_t position) const = 0;

  // Long runs: each stage reduces blocks to partial results and folds those of a run; then results
  // are written.
  virtual int stages() const = 0;
  virtual void reduce(int stage, const BlockOfRun& block, Columns columns) const = 0;
  virtual void fold(int stage, const LongRun& run, int64_t number, Columns columns) const = 0;
  virtual void write_segment(const LongRun& run, int64_t number, Columns columns) const = 0;
  virtual void write_block(const BlockOfRun& block, Columns columns) const = 0;
};

struct SegmentMembers {
  int ids;  // operand positions
  int64_t members, rows, width;
  Dtype element;
  IndexRule rule;
  bool sorted = false;
  bool by_segment = false;  // results are [S, D] and not [N, D]
  // Partial results of the compute type: for each long run, and for each of their blocks.
  int per_run = 0, per_block = 0;
  // `partial` has room for them, those of runs first; `runs` is how many there may be.
  std::function<std::unique_ptr<MemberFunction>(const Operand* operands, char* partial,
                                                int64_t runs, int64_t blocks)>
      make;
};

BoundKernel bind_segment_members(SegmentMembers op);

}  // namespace gradplan::rows
