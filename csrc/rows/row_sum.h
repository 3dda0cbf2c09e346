// Sums of rows: what the side that knows the members and the side that adds them say to each other.
//
// The members of a segment are cut into blocks of 256 from the segment's own start, a block is
// summed serially starting with its first member, and block sums are added serially in order.
#pragma once

#include "lanes/elements.h"

namespace gradplan::rows {
using namespace lanes;

constexpr int kRowBlock = int(kBlock);
constexpr int kBatch = 2 * kRowBlock;
constexpr int kAhead = 32;  // rows that are requested from memory before their turn, at most

struct Columns {
  int64_t begin, end;
};

// Whole runs of members: run r sums the members [end[r - 1], end[r]) into output row row[r].
struct Batch {
  int runs;
  int end[kBatch];
  int64_t row[kBatch];
  int32_t last[kBatch];  // 1 if this member ends its run, else 0
  // Where the members' rows start, in elements of the input; kAhead more belong to later members.
  int64_t offset[kBatch + kAhead];
};

// How an output is streamed: not at all, by vectors, or, where it is aligned to no more than NumPy
// aligns, by 16 bytes.
enum class StreamUnit { kNone, kVector, k16 };

// The element type is behind virtual functions, one call per batch, so that the side of the indices
// is not compiled once per element type.
class RowSums {
 public:
  // Writes the rows of the batch and, unless accumulating, zeros to the rows between `row` and
  // them. Returns the row behind the last.
  virtual int64_t write(const Batch& batch, int64_t row, Columns columns) const = 0;
  virtual void zero(int64_t row, int64_t end, Columns columns) const = 0;
  // Sums consecutive blocks of one run into consecutive partial sums; only the last may be short.
  // offset[count .. count + kAhead) must be there too.
  virtual void sum_blocks(const int64_t* offset, int count, Columns columns,
                          int64_t first) const = 0;
  // Adds up `count` partial sums into a row of the output.
  virtual void fold(int64_t row, int64_t first, int64_t count, Columns columns) const = 0;

  // Makes what was streamed visible to other threads.
  void finish() const {
    if (stream_ != StreamUnit::kNone) stream_fence();
  }

 protected:
  ~RowSums() = default;
  StreamUnit stream_ = StreamUnit::kNone;
};

}  // namespace gradplan::rows
