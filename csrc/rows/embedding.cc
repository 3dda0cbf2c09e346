// embedding and embedding_backward; and the gather that segment_sum_backward is as well.
#include "lanes/visit.h"
#include "memory/streams.h"
#include "rows/row_gather.h"
#include "rows/segment_reduction.h"

namespace gradplan::rows {
namespace {

constexpr int64_t kPieceBytes = 1 << 16;  // rows of one task
constexpr int64_t kTileBytes = 1 << 14;   // columns of one task, so that wide rows are shared out
constexpr int64_t kLine = 64;

// Bytes of one call: where the rows are, whatever the elements mean.
struct Copy {
  const char* table;
  int64_t table_stride;
  char* rows;
  int64_t rows_stride;
  int64_t bytes;  // of a row
  IndexRange range;
};

template <class Word, class I>
void gather_words(const Copy& call, const IndexView<I>& ids) {
  parallel_for(ids.count, kPieceBytes / 16, ids.count * 32, [=](int64_t n, int64_t end) {
    for (; n < end; ++n) {
      const int64_t id = ids[n];
      Word word{};
      if (call.range.selects(id))
        std::memcpy(&word, call.table + id * call.table_stride, sizeof word);
      std::memcpy(call.rows + n * call.rows_stride, &word, sizeof word);
    }
  });
}

struct alignas(16) Word16 {
  uint64_t half[2];
};

// bytes >= 2; what does not fill a vector is copied by two words that overlap.
GP_INLINE void copy_bytes(char* to, const char* from, int64_t bytes) {
  using Vector = NativeVector<uint8_t>::unaligned;
  const auto ends = [&](auto word) {
    auto last = word;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(&last, from + bytes - sizeof word, sizeof word);
    std::memcpy(to, &word, sizeof word);
    std::memcpy(to + bytes - sizeof word, &last, sizeof word);
  };
  if (bytes >= kVectorBytes) {
    const Vector last = *reinterpret_cast<const Vector*>(from + bytes - kVectorBytes);
    for (int64_t b = 0; b + kVectorBytes <= bytes; b += kVectorBytes)
      *reinterpret_cast<Vector*>(to + b) = *reinterpret_cast<const Vector*>(from + b);
    *reinterpret_cast<Vector*>(to + bytes - kVectorBytes) = last;
  } else if (bytes >= 16) {
    // 32 and 48 bytes of a 64-byte vector are not covered by two words
    for (int64_t b = 0; b + 16 <= bytes; b += 16) std::memcpy(to + b, from + b, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    ends(uint64_t{});
  } else if (bytes >= 4) {
    ends(uint32_t{});
  } else {
    ends(uint16_t{});
  }
}

// Rows that are written through the cache.
struct CachedRow {
  GP_INLINE static void prepare(const char*, int64_t) {}
  GP_INLINE static void copy(char* to, const char* from, int64_t bytes) {
    copy_bytes(to, from, bytes);
  }
  GP_INLINE static void zero(char* to, int64_t bytes) { std::memset(to, 0, size_t(bytes)); }
  static void finish() {}
};

// Whole lines past the cache; the two ends, in lines that a row shares with its neighbours, through
// it.
struct StreamedRow {
  // A vector type, and not an array of bytes: that would pass through memory in halves.
  using Vector = NativeVector<uint8_t>;

  // Rows follow one another: the next page will be written soon.
  GP_INLINE static void prepare(const char* to, int64_t bytes) {
    const char* soon = to + kPage;
    if (reinterpret_cast<intptr_t>(soon) % kPage < bytes) touch_pages(soon, 1);
  }
  GP_INLINE static void copy(char* to, const char* from, int64_t bytes) {
    const int64_t head = head_bytes(to, bytes);
    if (head > 0) copy_bytes(to, from, head);
    int64_t b = head;
    for (; b + kLine <= bytes; b += kLine)
      for (int64_t k = 0; k < kLine; k += kVectorBytes)
        stream(to + b + k, *reinterpret_cast<const Vector::unaligned*>(from + b + k));
    if (b < bytes) copy_bytes(to + b, from + b, bytes - b);
  }
  static void zero(char* to, int64_t bytes) {
    const int64_t head = head_bytes(to, bytes);
    std::memset(to, 0, size_t(head));
    int64_t b = head;
    for (; b + kVectorBytes <= bytes; b += kVectorBytes) stream(to + b, Vector::type{});
    std::memset(to + b, 0, size_t(bytes - b));
  }
  static void finish() { stream_fence(); }

 private:
  GP_INLINE static int64_t head_bytes(const char* to, int64_t bytes) {
    return std::min(-reinterpret_cast<intptr_t>(to) & (kLine - 1), bytes);
  }
  GP_INLINE static void stream(char* to, Vector::type v) {
    stream_bytes(to, &v, std::integral_constant<int, kVectorBytes>{});
  }
};

template <class Row, class I>
void gather_rows(const Copy& call, const IndexView<I>& ids) {
  const int64_t tiles = (call.bytes + kTileBytes - 1) / kTileBytes;
  const int64_t grain =
      long_grain(ids.count * tiles, kPieceBytes / std::min(call.bytes, kTileBytes));
  const int64_t ahead = std::clamp<int64_t>(8192 / call.bytes, 1, 16);
  parallel_for(ids.count * tiles, grain, ids.count * call.bytes, [=](int64_t task, int64_t end) {
    int64_t n = task / tiles;
    int64_t tile = task % tiles;
    for (; task < end; ++task) {
      const int64_t begin = tile * kTileBytes;
      const int64_t bytes = std::min(call.bytes - begin, kTileBytes);
      const int64_t later = ids[std::min(n + ahead, ids.count - 1)];
      if (call.range.selects(later)) {
        const char* p = call.table + later * call.table_stride + begin;
        for (int64_t b = 0; b < std::min(bytes, 16 * kLine); b += kLine)
          __builtin_prefetch(p + b, 0, 2);
      }
      const int64_t id = ids[n];
      char* to = call.rows + n * call.rows_stride + begin;
      Row::prepare(to, bytes);
      if (call.range.selects(id)) {
        Row::copy(to, call.table + id * call.table_stride + begin, bytes);
      } else {
        Row::zero(to, bytes);
      }
      if (++tile == tiles) {
        tile = 0;
        ++n;
      }
    }
    Row::finish();
  });
}

// Any strides. The inner loop runs along the output's shorter stride.
template <class Word, class I>
void gather_strided(const Operand& table, const Operand& rows, IndexRange range,
                    const IndexView<I>& ids) {
  constexpr int64_t kRows = 64;
  const int64_t width = rows.shape[1];
  const int64_t bytes = ids.count * width * int64_t(sizeof(Word));
  const Word* from = table.as<const Word>();
  Word* to = rows.as<Word>();
  const bool down = std::abs(rows.stride[0]) < std::abs(rows.stride[1]);
  parallel_for((ids.count + kRows - 1) / kRows, 1, bytes, [&](int64_t piece, int64_t end) {
    for (; piece < end; ++piece) {
      const int64_t first = piece * kRows;
      const int64_t count = std::min(kRows, ids.count - first);
      int64_t id[kRows];
      for (int64_t k = 0; k < count; ++k) {
        id[k] = ids[first + k];
        if (!range.selects(id[k])) id[k] = -1;
      }
      const auto copy = [&](int64_t k, int64_t d) {
        to[(first + k) * rows.stride[0] + d * rows.stride[1]] =
            id[k] < 0 ? Word{0} : from[id[k] * table.stride[0] + d * table.stride[1]];
      };
      if (down) {
        for (int64_t d = 0; d < width; ++d)
          for (int64_t k = 0; k < count; ++k) copy(k, d);
      } else {
        for (int64_t k = 0; k < count; ++k)
          for (int64_t d = 0; d < width; ++d) copy(k, d);
      }
    }
  });
}

template <class I>
void gather_packed(const Copy& call, const IndexView<I>& ids) {
  switch (call.bytes) {
    case 2: return gather_words<uint16_t>(call, ids);
    case 4: return gather_words<uint32_t>(call, ids);
    case 8: return gather_words<uint64_t>(call, ids);
    case 16: return gather_words<Word16>(call, ids);
  }
  const bool lines =
      (reinterpret_cast<intptr_t>(call.rows) | call.rows_stride | call.bytes) % kLine == 0;
  if (exceeds_caches(2 * ids.count * call.bytes) && (lines || call.bytes >= 4 * kLine)) {
    gather_rows<StreamedRow>(call, ids);
  } else {
    gather_rows<CachedRow>(call, ids);
  }
}

template <class I>
void run_gather(const RowGather& op, const Operand* operands) {
  const IndexView<I> ids(operands[op.ids]);
  const Operand& table = operands[op.table];
  const Operand& rows = operands[op.rows];
  check_bounds(op.rule, ids);
  const int64_t width = rows.shape[1];
  if (width == 0) return;
  const int64_t item = item_size(rows.dtype);
  if (width == 1 || (table.stride[1] == 1 && rows.stride[1] == 1)) {
    gather_packed(Copy{table.as<const char>(), table.stride[0] * item, rows.as<char>(),
                       rows.stride[0] * item, width * item, op.rule.range},
                  ids);
  } else if (item == 2) {
    gather_strided<uint16_t>(table, rows, op.rule.range, ids);
  } else if (item == 4) {
    gather_strided<uint32_t>(table, rows, op.rule.range, ids);
  } else {
    gather_strided<uint64_t>(table, rows, op.rule.range, ids);
  }
}

BoundKernel bind_embedding(const Problem& problem) {
  return bind_row_gather(problem, {.table = problem.at("weight"),
                                   .ids = problem.at("indices"),
                                   .rows = problem.at("output"),
                                   .rule = index_rule(problem, "indices", "weight")});
}

BoundKernel bind_embedding_backward(const Problem& problem) {
  return bind_segment_reduction(problem, {.values = problem.at("dout"),
                                          .ids = problem.at("indices"),
                                          .results = problem.at("dweight"),
                                          .rule = index_rule(problem, "indices", "dweight"),
                                          .reducers = row_sums(),
                                          .accumulate = problem.flag("accumulate")});
}

}  // namespace

BoundKernel bind_row_gather(const Problem&, RowGather op) {
  return {[op = std::move(op)](const Operand* operands, char*) {
    visit_index(operands[op.ids].dtype,
                [&](auto* i) { run_gather<std::remove_pointer_t<decltype(i)>>(op, operands); });
  }};
}

namespace {

const Registration embedding({.name = "embedding",
                              .tensors = {"weight", "indices", "output"},
                              .attributes = {{"padding_idx"}, {"bounds", kBounds}},
                              .elements = kFloats,
                              .bind = bind_embedding});
const Registration backward({.name = "embedding_backward",
                             .tensors = {"dout", "indices", "dweight"},
                             .attributes = {{"padding_idx"}, {"accumulate"}, {"bounds", kBounds}},
                             .elements = kFloats,
                             .bind = bind_embedding_backward});

}  // namespace
}  // namespace gradplan::rows
