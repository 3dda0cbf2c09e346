// Reductions of rows: what the side that knows the members and the side that combines them say to
// each other.
//
// The members of a segment are cut into blocks of 256 from the segment's own start, a block is
// reduced serially starting with its first member, and blocks are combined serially in order.
#pragma once

#include <memory>

#include "ffi/tensor.h"
#include "lanes/elements.h"
#include "memory/threads.h"

namespace gradplan::rows {
using namespace ffi;
using namespace lanes;
using namespace memory;

constexpr int kRowBlock = int(kBlock);
constexpr int kBatch = 2 * kRowBlock;
constexpr int kAhead = 32;  // rows that are requested from memory before their turn, at most

struct Columns {
  int64_t begin, end;
};

// Whole runs of members: run r reduces the members [end[r - 1], end[r]) to output row row[r].
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
class RowReduction {
 public:
  virtual ~RowReduction() = default;

  // Writes the rows of the batch and, unless accumulating, what empty rows are to those between
  // `row` and them. Returns the row behind the last.
  virtual int64_t write(const Batch& batch, int64_t row, Columns columns) const = 0;
  virtual void empty(int64_t row, int64_t end, Columns columns) const = 0;
  // Reduces consecutive blocks of one run to consecutive partial results; only the last may be
  // short. offset[count .. count + kAhead) must be there too.
  virtual void reduce_blocks(const int64_t* offset, int count, Columns columns,
                             int64_t first) const = 0;
  // Combines `count` partial results, of `members` members, to a row of the output.
  virtual void fold(int64_t row, int64_t first, int64_t count, int64_t members,
                    Columns columns) const = 0;

  // Makes what was streamed visible to other threads.
  void finish() const {
    if (stream_ != StreamUnit::kNone) stream_fence();
  }

 protected:
  StreamUnit stream_ = StreamUnit::kNone;
};

// Values of a partial result: whole vectors, so that they are read without care for the last
// columns.
constexpr int64_t partial_width(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

// The rows of `input` (there are `rows`) reduced to those of `output`, or to it and what it holds.
// `partial` has room for the partial results of long runs, in the compute type.
template <class Reducer>
std::unique_ptr<RowReduction> make_row_reduction(const Reducer& reducer, const Operand& input,
                                                 int64_t rows, const Operand& output,
                                                 bool accumulate, char* partial);

}  // namespace gradplan::rows
