// Who the members of each segment are, and which thread takes which.
#include "rows/segment_members.h"

#include "lanes/visit.h"

namespace gradplan::rows {
namespace {

constexpr int64_t kTileBytes = 4096;     // columns of one task, so that wide rows are shared out
constexpr int64_t kTaskBytes = 1 << 16;  // rows of one task at least

struct BoundMembers {
  SegmentMembers op;
  IndexSort sort;
  int64_t runs = 0;    // longer than a batch, at most
  int64_t blocks = 0;  // of them
  int64_t long_runs_at = 0;
  int64_t partial_at = 0;
  int64_t workspace_size = 0;
  int64_t tiles = 0;
  int64_t tile_width = 0;

  explicit BoundMembers(SegmentMembers given) : op(std::move(given)), sort(op.members, op.rows) {
    if (op.width == 0) return;
    tiles = (op.width * item_size(op.element) + kTileBytes - 1) / kTileBytes;
    const int64_t share = (op.width + tiles - 1) / tiles;
    tile_width = (share + kLanes - 1) / kLanes * kLanes;
    tiles = (op.width + tile_width - 1) / tile_width;
    const int64_t n = op.members;
    runs = n / kBatch;
    blocks = runs == 0 ? 0 : n / kRowBlock + runs;
    long_runs_at = op.sorted || n == 0 ? 0 : (sort.workspace_size() + 63) / 64 * 64;
    partial_at = (long_runs_at + runs * int64_t(sizeof(LongRun)) + 63) / 64 * 64;
    const int64_t compute_size = op.element == Dtype::kF64 ? sizeof(double) : sizeof(float);
    workspace_size = partial_at + (op.per_run * runs + op.per_block * blocks) *
                                      partial_width(op.width) * compute_size;
  }

  Columns columns(int64_t tile) const {
    return {tile * tile_width, std::min((tile + 1) * tile_width, op.width)};
  }
};

// All segments but the long runs, which it lists.
template <class Source>
void write_short_runs(const BoundMembers& b, const Source& source, int64_t members,
                      const MemberFunction& function, LongRuns& long_runs) {
  const bool count_rows = b.op.by_segment;
  const int64_t distance = members + (count_rows ? b.op.rows : 0);
  const int64_t bytes = distance * (2 * b.op.width * item_size(b.op.element) + 16);
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
        member = fill_batch(source, member, to.member, members, 1, batch);
        if (batch.runs > 0) {
          row = function.write(batch, row, columns);
          continue;
        }
        const int64_t key = source.key(member);
        const int64_t behind = lower_bound(source, member + kBatch, to.member, key + 1);
        if (tile == 0) long_runs.add({key, member, behind, 0});
        if (count_rows) function.empty(row, key, columns);
        row = key + 1;
        member = behind;
      }
      if (count_rows) function.empty(row, to.row, columns);
    }
  });
}

// f(block, columns) for every block of the long runs and every tile.
template <class Source, class F>
void for_each_block(const BoundMembers& b, const Source& source, const LongRun* run, int64_t runs,
                    int64_t blocks, const F& f) {
  const int64_t bytes = blocks * kRowBlock * (2 * b.op.width * item_size(b.op.element) + 16);
  parallel_for(blocks * b.tiles, 1, bytes, [&](int64_t task, int64_t end) {
    int64_t position[kRowBlock];
    for (; task < end; ++task) {
      const int64_t place = task / b.tiles;
      const LongRun* r =
          std::upper_bound(run, run + runs, place,
                           [](int64_t at, const LongRun& x) { return at < x.first_block; }) -
          1;
      const int64_t number = place - r->first_block;
      const int64_t begin = r->begin + number * kRowBlock;
      const int count = int(std::min<int64_t>(kRowBlock, r->end - begin));
      for (int i = 0; i < count; ++i) position[i] = source.position(begin + i);
      f(BlockOfRun{r - run, r->row, r->end - r->begin, number, place, position, count},
        b.columns(task % b.tiles));
    }
  });
}

template <class Source>
void write_long_runs(const BoundMembers& b, const Source& source, const MemberFunction& function,
                     LongRun* run, int64_t runs) {
  int64_t blocks = 0;
  for (int64_t r = 0; r < runs; ++r) {
    run[r].first_block = blocks;
    blocks += run[r].blocks();
  }
  const auto for_each_run = [&](const auto& f) {
    parallel_for(runs * b.tiles, 1, blocks * b.op.width * 8, [&](int64_t task, int64_t end) {
      for (; task < end; ++task) f(run[task / b.tiles], task / b.tiles, b.columns(task % b.tiles));
    });
  };
  for (int stage = 0; stage < function.stages(); ++stage) {
    for_each_block(b, source, run, runs, blocks, [&](const BlockOfRun& block, Columns columns) {
      function.reduce(stage, block, columns);
    });
    for_each_run([&](const LongRun& r, int64_t number, Columns columns) {
      function.fold(stage, r, number, columns);
    });
  }
  if (b.op.by_segment) {
    for_each_run([&](const LongRun& r, int64_t number, Columns columns) {
      function.write_segment(r, number, columns);
    });
    return;
  }
  for_each_block(b, source, run, runs, blocks, [&](const BlockOfRun& block, Columns columns) {
    function.write_block(block, columns);
  });
}

template <class Source>
void write_all(const BoundMembers& b, const Source& source, int64_t members,
               const MemberFunction& function, char* workspace) {
  LongRuns long_runs{reinterpret_cast<LongRun*>(workspace + b.long_runs_at)};
  write_short_runs(b, source, members, function, long_runs);
  const int64_t runs = long_runs.count.load(std::memory_order_relaxed);
  if (runs > 0) write_long_runs(b, source, function, long_runs.run, runs);
}

template <class K, class I>
void sort_and_write(const BoundMembers& b, const IndexView<I>& ids, const MemberFunction& function,
                    char* workspace) {
  const auto key_of = [ids, range = b.op.rule.range](int64_t i) {
    const int64_t id = ids[i];
    return K(range.selects(id) ? id : range.rows);
  };
  int64_t kept = 0;
  auto* entry = b.sort.run<K>(key_of, [](int64_t i) { return K(i); }, workspace, kept);
  write_all(b, SortedPositions<K>{entry}, kept, function, workspace);
}

template <class I>
void run_members(const BoundMembers& b, const Operand* operands, char* workspace) {
  const IndexView<I> ids(operands[b.op.ids]);
  if (b.op.sorted) check_sorted(b.op.rule, ids);
  check_bounds(b.op.rule, ids);
  if (b.op.width == 0) return;
  const auto function = b.op.make(operands, workspace + b.partial_at, b.runs, b.blocks);
  if (!b.op.by_segment && !b.op.rule.raise) {
    const int64_t bytes = ids.count * int64_t(sizeof(I));
    parallel_for(ids.count, 4096, bytes, [&](int64_t n, int64_t end) {
      for (; n < end; ++n)
        if (!b.op.rule.range.selects(ids[n])) [[unlikely]]
          function->skip(n);
    });
  }
  if (b.op.rows == 0) return;
  if (b.op.sorted || b.op.members == 0) {
    const SortedIds<I> all{ids, 0};
    const int64_t first = lower_bound(all, 0, b.op.members, 0);
    const int64_t last = lower_bound(all, first, b.op.members, b.op.rows);
    write_all(b, SortedIds<I>{ids, first}, last - first, *function, workspace);
  } else if (b.sort.narrow()) {
    sort_and_write<uint32_t>(b, ids, *function, workspace);
  } else {
    sort_and_write<uint64_t>(b, ids, *function, workspace);
  }
}

}  // namespace

BoundKernel bind_segment_members(SegmentMembers op) {
  BoundMembers bound(std::move(op));
  const int64_t workspace_size = bound.workspace_size;
  return {[b = std::move(bound)](const Operand* operands, char* workspace) {
            visit_index(operands[b.op.ids].dtype, [&](auto* i) {
              run_members<std::remove_pointer_t<decltype(i)>>(b, operands, workspace);
            });
          },
          workspace_size};
}

}  // namespace gradplan::rows
