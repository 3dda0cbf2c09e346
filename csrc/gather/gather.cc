// gather, index_select, and the gradients that are the same: copies by index along an axis.
#include "gather/axis_indices.h"
#include "gather/row_problem.h"
#include "memory/streams.h"
#include "rows/row_gather.h"

namespace gradplan::gather {
namespace {

constexpr int64_t kPiece = 4096;  // elements of one task
constexpr int64_t kStage = 256;   // elements that are picked before they are streamed

// Every element by itself, in the order of the output's memory.
template <class Word, class I>
void pick_elements(const AxisProblem& p, const Operand* t) {
  const Operand &x = t[p.table], &ids = t[p.ids], &out = t[p.members];
  const Shape id_strides = index_strides(p, ids);
  Dimensions all;
  for (int d = 0; d < out.rank; ++d)
    all.add(out.shape[d], {id_strides[d], d == p.axis ? 0 : x.stride[d], out.stride[d]});
  all.arrange(2);
  const int64_t count = all.count();
  if (count == 0) return;
  int64_t inner = 1;
  Offsets step{};
  if (!all.extent.empty()) {
    inner = all.extent.back();
    step = all.stride.back();
    all.extent.pop_back();
    all.stride.pop_back();
  }
  const int64_t along = x.stride[p.axis];
  const IndexRange range = p.range();
  const int64_t pieces = (inner + kPiece - 1) / kPiece;
  const int64_t tasks = count / inner * pieces;
  const int64_t bytes = count * int64_t(sizeof(I) + 2 * sizeof(Word));
  const auto copy = [&](const I* id, const Word* from, Word* to, int64_t n, auto packed) {
    const int64_t is = packed ? 1 : step[0], os = packed ? 1 : step[2], xs = step[1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = id[i * is];
      to[i * os] = range.selects(k) ? from[i * xs + k * along] : Word{0};
    }
  };
  const bool packed = step[0] == 1 && step[2] == 1;
  const bool stream = packed && exceeds_caches(bytes);
  // Where the axis is the innermost, a line of the table is read in any order, which the hardware
  // does not foresee: the next line is fetched while this one is used.
  const bool foresee = step[1] == 0 && along == 1 && pieces == 1 && p.size <= 4 * inner;
  const int64_t grain = long_grain(tasks, std::max<int64_t>(1, kPiece / inner));
  parallel_for(tasks, grain, bytes, [&](int64_t task, int64_t end) {
    StreamWriter<Word> writer;
    for (; task < end; ++task) {
      const Offsets at = all.offsets(task / pieces);
      const int64_t first = task % pieces * kPiece;
      const int64_t n = std::min(kPiece, inner - first);
      const I* id = ids.as<const I>() + at[0] + first * step[0];
      const Word* from = x.as<const Word>() + at[1] + first * step[1];
      Word* to = out.as<Word>() + at[2] + first * step[2];
      if (!packed) {
        copy(id, from, to, n, std::false_type{});
        continue;
      }
      const Word* next =
          foresee && task + 1 < end ? x.as<const Word>() + all.offsets(task + 1)[1] : nullptr;
      if (stream) touch_pages(to, n);
      for (int64_t i = 0; i < n; i += kStage) {
        const int64_t some = std::min(kStage, n - i);
        if (next) prefetch_run(next + i * p.size / n, some * p.size / n);
        alignas(64) Word staged[kStage];
        copy(id + i, from + i * step[1], stream ? staged : to + i, some, std::true_type{});
        if (stream) writer.put(staged, to + i, some);
      }
    }
    writer.flush();
    if (stream) stream_fence();
  });
}

template <class I>
void pick(const AxisProblem& p, const Operand* t) {
  switch (item_size(p.element)) {
    case 2: return pick_elements<uint16_t, I>(p, t);
    case 4: return pick_elements<uint32_t, I>(p, t);
    default: return pick_elements<uint64_t, I>(p, t);
  }
}

BoundKernel bind_pick(const Problem& problem, const std::string& table, const std::string& members,
                      bool shared) {
  AxisProblem p(problem, members, table);
  p.shared = shared;
  // Rows are copied whole where lines share their indices and lie side by side.
  const RowProblem as_rows(p);
  const BoundKernel rows = rows::bind_row_gather(
      as_rows.problem(problem),
      {.table = p.table, .ids = p.ids, .rows = p.members, .rule = as_rows.rule(p)});
  return {[=](const Operand* t, char* workspace) {
            check_indices(p, t[p.ids]);
            if (as_rows.run(p, t, workspace, rows)) return;
            visit_index(t[p.ids].dtype,
                        [&](auto* tag) { pick<std::remove_pointer_t<decltype(tag)>>(p, t); });
          },
          rows.workspace_size};
}

const Registration gather({.name = "gather",
                           .tensors = {"x", "indices", "output"},
                           .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                           .elements = kFloats,
                           .bind = [](const Problem& p) {
                             return bind_pick(p, "x", "output", false);
                           }});
const Registration scatter_add_backward({.name = "scatter_add_backward",
                                         .tensors = {"d_output", "indices", "dx"},
                                         .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                         .elements = kFloats,
                                         .bind = [](const Problem& p) {
                                           return bind_pick(p, "d_output", "dx", false);
                                         }});
const Registration index_select({.name = "index_select",
                                 .tensors = {"x", "indices", "output"},
                                 .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                 .elements = kFloats,
                                 .bind = [](const Problem& p) {
                                   return bind_pick(p, "x", "output", true);
                                 }});
const Registration index_add_backward({.name = "index_add_backward",
                                       .tensors = {"d_output", "indices", "dx"},
                                       .attributes = {{"axis"}, {"bounds", rows::kBounds}},
                                       .elements = kFloats,
                                       .bind = [](const Problem& p) {
                                         return bind_pick(p, "d_output", "dx", true);
                                       }});

}  // namespace
}  // namespace gradplan::gather
