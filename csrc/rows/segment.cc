// segment_sum, unsorted_segment_sum, segment_sum_backward; and the reduction of rows by index that
// embedding_backward is as well.
#include "lanes/visit.h"
#include "rows/row_gather.h"
#include "rows/segment_reduction.h"
#include "rows/segment_runs.h"
#include "rows/segments.h"

namespace gradplan::rows {
namespace {

constexpr int64_t kTileBytes = 4096;     // columns of one task, so that wide rows are shared out
constexpr int64_t kTaskBytes = 1 << 16;  // rows of one task at least
constexpr int kMostBlocks = 8;           // of a long run that one task reduces
// Without sorting there is a cost for every row, with it for every member.
constexpr int64_t kMostRowsPerScalar = 4;
constexpr int64_t kMostScalars = int64_t{1} << 31;  // that a ScalarResult counts

// Everything that is known when the plan is selected.
struct BoundReduction {
  SegmentReduction op;
  Dtype element;
  int64_t members;  // N
  int64_t rows;     // S
  int64_t width;    // D
  IndexSort sort;
  bool scalars = false;  // single elements, without sorting
  int64_t long_runs_at = 0;
  int64_t partial_at = 0;
  int64_t workspace_size = 0;
  int64_t tiles = 0;
  int64_t tile_width = 0;

  Columns columns(int64_t tile) const {
    return {tile * tile_width, std::min((tile + 1) * tile_width, width)};
  }
};

BoundReduction plan_reduction(const Problem& problem, const SegmentReduction& op) {
  const Shape& values = problem.shape[op.values];
  const int64_t n = values[0], rows = op.rule.range.rows, width = values[1];
  BoundReduction b{.op = op,
                   .element = problem.dtypes[op.values].front(),
                   .members = n,
                   .rows = rows,
                   .width = width,
                   .sort = IndexSort(n, rows)};
  if (rows == 0 || width == 0) return b;
  const int64_t item = item_size(b.element);
  b.tiles = (width * item + kTileBytes - 1) / kTileBytes;
  const int64_t share = (width + b.tiles - 1) / b.tiles;
  b.tile_width = (share + kLanes - 1) / kLanes * kLanes;
  b.tiles = (width + b.tile_width - 1) / b.tile_width;
  if (n == 0) return b;

  b.scalars = !op.sorted && width == 1 && rows <= kMostRowsPerScalar * n && n < kMostScalars;
  if (b.scalars) {
    b.workspace_size = op.reducers.scalar_workspace(b.element, rows);
    return b;
  }
  b.long_runs_at = op.sorted ? 0 : (b.sort.workspace_size() + 63) / 64 * 64;
  const int64_t runs = n / kBatch;  // at most this many are longer than a batch
  b.partial_at = (b.long_runs_at + runs * int64_t(sizeof(LongRun)) + 63) / 64 * 64;
  const int64_t blocks = runs == 0 ? 0 : n / kRowBlock + runs;
  const int64_t compute_size = b.element == Dtype::kF64 ? sizeof(double) : sizeof(float);
  b.workspace_size = b.partial_at + blocks * partial_width(width) * compute_size;
  return b;
}

// All rows but the long runs, which it lists.
template <class Source>
void reduce_short_runs(const BoundReduction& b, const Source& source, int64_t members,
                       int64_t row_stride, const RowReduction& kernel, LongRuns& long_runs) {
  const bool count_rows = !b.op.accumulate;
  const int64_t distance = members + (count_rows ? b.rows : 0);
  const int64_t bytes = distance * (b.width * item_size(b.element) + 16);
  const int64_t most = std::max<int64_t>(32 * num_threads() / b.tiles, 1);
  const int64_t pieces = std::clamp<int64_t>(bytes / kTaskBytes, 1, most);
  const int64_t piece = (distance + pieces - 1) / pieces;
  parallel_for(pieces * b.tiles, 1, bytes, [&](int64_t task, int64_t end) {
    Batch batch;
    for (; task < end; ++task) {
      const int64_t tile = task % b.tiles;
      const Columns columns = b.columns(tile);
      const int64_t begin = std::min(task / b.tiles * piece, distance);
      const Cut from = cut_at(source, members, count_rows, begin);
      const Cut to = cut_at(source, members, count_rows, std::min(begin + piece, distance));
      int64_t row = from.row;
      for (int64_t member = from.member; member < to.member;) {
        member = fill_batch(source, member, to.member, members, row_stride, batch);
        if (batch.runs > 0) {
          row = kernel.write(batch, row, columns);
          continue;
        }
        const int64_t key = source.key(member);
        const int64_t behind = lower_bound(source, member + kBatch, to.member, key + 1);
        if (tile == 0) long_runs.add({key, member, behind, 0});
        if (count_rows) kernel.empty(row, key, columns);
        row = key + 1;
        member = behind;
      }
      if (count_rows) kernel.empty(row, to.row, columns);
    }
    kernel.finish();
  });
}

// Blocks are independent, so one hot row does not wait on one thread.
template <class Source>
void reduce_long_runs(const BoundReduction& b, const Source& source, int64_t members,
                      int64_t row_stride, const RowReduction& kernel, LongRun* run, int64_t runs) {
  int64_t blocks = 0;
  for (int64_t r = 0; r < runs; ++r) {
    run[r].first_block = blocks;
    blocks += run[r].blocks();
  }
  const int64_t item = item_size(b.element);
  const int64_t group =
      std::clamp<int64_t>((1 << 18) / (kRowBlock * b.tile_width * item), 1, kMostBlocks);
  const int64_t groups = (blocks + group - 1) / group;
  const int64_t bytes = blocks * kRowBlock * (b.width * item + 16);
  parallel_for(groups * b.tiles, 1, bytes, [&](int64_t task, int64_t end) {
    int64_t offset[kMostBlocks * kRowBlock + kAhead];
    for (; task < end; ++task) {
      int64_t block = task / b.tiles * group;
      const int64_t stop = std::min(block + group, blocks);
      const LongRun* r =
          std::upper_bound(run, run + runs, block,
                           [](int64_t at, const LongRun& x) { return at < x.first_block; }) -
          1;
      for (; block < stop; ++r) {
        const int64_t here = std::min(stop, r->first_block + r->blocks()) - block;
        const int64_t begin = r->begin + (block - r->first_block) * kRowBlock;
        const int count = int(std::min(here * kRowBlock, r->end - begin));
        for (int i = 0; i < count + kAhead; ++i)
          offset[i] = source.position(std::min(begin + i, members - 1)) * row_stride;
        kernel.reduce_blocks(offset, count, b.columns(task % b.tiles), block);
        block += here;
      }
    }
  });
  const int64_t grain = std::max<int64_t>(1, 256 / b.tile_width);
  parallel_for(runs * b.tiles, grain, bytes / kRowBlock, [&](int64_t task, int64_t end) {
    for (; task < end; ++task) {
      const LongRun& r = run[task / b.tiles];
      kernel.fold(r.row, r.first_block, r.blocks(), r.end - r.begin, b.columns(task % b.tiles));
    }
    kernel.finish();
  });
}

// `input` holds rows that the source's positions count: the values, or sorted copies of them.
template <class Source>
void reduce_sorted(const BoundReduction& b, const Source& source, int64_t members,
                   const Operand& input, const Operand& output, char* workspace) {
  const auto kernel =
      b.op.reducers.rows(input, b.members, output, b.op.accumulate, workspace + b.partial_at);
  LongRuns long_runs{reinterpret_cast<LongRun*>(workspace + b.long_runs_at)};
  reduce_short_runs(b, source, members, input.stride[0], *kernel, long_runs);
  const int64_t runs = long_runs.count.load(std::memory_order_relaxed);
  if (runs > 0) reduce_long_runs(b, source, members, input.stride[0], *kernel, long_runs.run, runs);
}

template <class K, class I>
void sort_and_reduce(const BoundReduction& b, const IndexView<I>& ids, const Operand& input,
                     const Operand& output, char* workspace) {
  const auto key_of = [ids, range = b.op.rule.range](int64_t i) {
    const int64_t id = ids[i];
    return K(range.selects(id) ? id : range.rows);
  };
  int64_t kept = 0;
  auto* entry = b.sort.run<K>(key_of, [](int64_t i) { return K(i); }, workspace, kept);
  reduce_sorted(b, SortedPositions<K>{entry}, kept, input, output, workspace);
}

template <class I>
void run_reduction(const BoundReduction& b, const Operand* operands, char* workspace) {
  const IndexView<I> ids(operands[b.op.ids]);
  const Operand& input = operands[b.op.values];
  const Operand& output = operands[b.op.results];
  if (b.op.sorted) check_sorted(b.op.rule, ids);
  check_bounds(b.op.rule, ids);
  if (b.rows == 0 || b.width == 0) return;
  if (b.op.sorted || b.members == 0) {
    const SortedIds<I> all{ids, 0};
    const int64_t first = lower_bound(all, 0, b.members, 0);
    const int64_t last = lower_bound(all, first, b.members, b.rows);
    reduce_sorted(b, SortedIds<I>{ids, first}, last - first, input, output, workspace);
  } else if (b.scalars) {
    b.op.reducers.scalars(input, operands[b.op.ids], b.op.rule.range.padding, output,
                          b.op.accumulate, workspace);
  } else if (b.sort.narrow()) {
    sort_and_reduce<uint32_t>(b, ids, input, output, workspace);
  } else {
    sort_and_reduce<uint64_t>(b, ids, input, output, workspace);
  }
}

}  // namespace

BoundKernel bind_segment_reduction(const Problem& problem, SegmentReduction op) {
  BoundReduction bound = plan_reduction(problem, std::move(op));
  const int64_t workspace_size = bound.workspace_size;
  return {[b = std::move(bound)](const Operand* operands, char* workspace) {
            visit_index(operands[b.op.ids].dtype, [&](auto* i) {
              run_reduction<std::remove_pointer_t<decltype(i)>>(b, operands, workspace);
            });
          },
          workspace_size};
}

BoundKernel bind_segment_sum(const Problem& problem, bool sorted) {
  return bind_segment_reduction(problem, {.values = problem.at("input"),
                                          .ids = problem.at("segment_ids"),
                                          .results = problem.at("output"),
                                          .rule = index_rule(problem, "segment_ids", "output"),
                                          .reducers = row_sums(),
                                          .sorted = sorted});
}

BoundKernel bind_segment_sum_backward(const Problem& problem) {
  return bind_row_gather(problem, {.table = problem.at("d_output"),
                                   .ids = problem.at("segment_ids"),
                                   .rows = problem.at("d_input"),
                                   .rule = index_rule(problem, "segment_ids", "d_output")});
}

namespace {

const Registration sorted({.name = "segment_sum",
                           .tensors = {"input", "segment_ids", "output"},
                           .attributes = {{"bounds", kBounds}},
                           .elements = kFloats,
                           .bind = [](const Problem& p) { return bind_segment_sum(p, true); }});
const Registration unsorted({.name = "unsorted_segment_sum",
                             .tensors = {"input", "segment_ids", "output"},
                             .attributes = {{"bounds", kBounds}},
                             .elements = kFloats,
                             .bind = [](const Problem& p) { return bind_segment_sum(p, false); }});
const Registration backward({.name = "segment_sum_backward",
                             .tensors = {"d_output", "segment_ids", "d_input"},
                             .attributes = {{"bounds", kBounds}},
                             .elements = kFloats,
                             .bind = bind_segment_sum_backward});

}  // namespace
}  // namespace gradplan::rows
