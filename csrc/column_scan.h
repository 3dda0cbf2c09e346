// Plain scans along an axis across which memory runs: columns that are neighbours.
//
// A strip of columns goes down together, two rows at a time, so that memory is read and written in
// long runs; the carries of all its columns stay in the cache.
#pragma once

#include "mask_bits.h"
#include "prefix.h"
#include "streams.h"
#include "sweep.h"

namespace gradplan {

// Columns of a strip. A row of it is a page of f32: narrower ones translate more addresses, wider
// ones push the carries out of the first-level cache.
constexpr int64_t kStripColumns = 1024;

template <class E, class Op>
class ColumnStrip {
 public:
  using C = ComputeOf<E>;

  explicit ColumnStrip(int64_t columns) : columns_(columns) {
    reset(c1_);
    reset(c2_);
    reset(c3_);
  }

  // The next rows of the scan, `count` of them (1 or kRows, and then from a multiple of it on).
  // They may be written over. Those `ahead` of them are prefetched.
  void put(const E* x, int64_t x_step, int64_t ahead, E* y, int64_t y_step, int count,
           StreamWriter<E>* stream) {
    count == kRows ? scan<kRows>(x, x_step, ahead) : scan<1>(x, x_step, ahead);
    for (int r = 0; r < count; ++r) {
      if (stream)
        stream->put(staged_[r], y + r * y_step, columns_);
      else
        std::memcpy(static_cast<void*>(y + r * y_step), staged_[r], size_t(columns_) * sizeof(E));
    }
    position_ += count;
    if (position_ % kGroup == 0) add(c1_, local_[now_]);
    if (position_ % kBlock == 0) {
      add(c2_, c1_);
      reset(c1_);
    }
    if (position_ % kChunk == 0) {
      add(c3_, c2_);
      reset(c2_);
    }
  }

  // Rows that are worked on together: their carries are read once.
  static constexpr int kRows = 2;

 private:
  using V = Lanes<C>;
  using NativeMask = Native<IntOf<C>>;
  using Elements = ElementLanes<E>;

  template <int Rows>
  void scan(const E* x, int64_t step, int64_t ahead) {
    const bool has_c3 = position_ >= kChunk;
    if (!(has_c3 ? attempt<Rows, true, true> : attempt<Rows, true, false>)(*this, x, step, ahead))
      (has_c3 ? attempt<Rows, false, true> : attempt<Rows, false, false>)(*this, x, step, ahead);
    now_ ^= 1;
  }

  // Local results go to local_[1 - now_], the rows' results to staged_. False where hasty
  // arithmetic met a NaN; nothing is lost then.
  template <int Rows, bool Hasty, bool HasC3>
  __attribute__((noinline)) static bool attempt(ColumnStrip& s, const E* x, int64_t step,
                                                int64_t ahead) {
    return s.position_ % kGroup == 0 ? s.rows<Rows, Hasty, HasC3, true>(x, step, ahead)
                                     : s.rows<Rows, Hasty, HasC3, false>(x, step, ahead);
  }

  template <int Rows, bool Hasty, bool HasC3, bool First>
  GP_INLINE bool rows(const E* x, int64_t step, int64_t ahead) {
    const C* before = local_[now_];
    C* after = local_[1 - now_];
    NativeMask met_nan{};
    const auto work = [&](int64_t at, auto load, auto store) GP_INLINE_LAMBDA {
      const V k1 = V::load(c1_ + at), k2 = V::load(c2_ + at), k3 = V::load(c3_ + at);
      V local = V::load(before + at);
      if constexpr (Hasty && Op::kLosesNan)
        for (int p = 0; p < V::kParts; ++p)
          met_nan |=
              (k1.part[p] != k1.part[p]) | (k2.part[p] != k2.part[p]) | (k3.part[p] != k3.part[p]);
      for (int row = 0; row < Rows; ++row) {
        const V in = load(row);
        V out;
        for (int p = 0; p < V::kParts; ++p) {
          local.part[p] =
              First && row == 0 ? in.part[p] : apply_either<Op, Hasty>(local.part[p], in.part[p]);
          auto r = apply_either<Op, Hasty>(k1.part[p], local.part[p]);
          r = apply_either<Op, Hasty>(k2.part[p], r);
          if constexpr (HasC3) r = apply_either<Op, Hasty>(k3.part[p], r);
          if constexpr (Hasty) met_nan |= r != r;
          if constexpr (Hasty && Op::kLosesNan)
            met_nan |= (in.part[p] != in.part[p]) | (local.part[p] != local.part[p]);
          out.part[p] = r;
        }
        store(row, out);
      }
      local.store(after + at);
    };
    int64_t at = 0;
    for (; at + kLanes <= columns_; at += kLanes)
      work(
          at,
          [&](int row) GP_INLINE_LAMBDA {
            const E* from = x + row * step + at;
            for (int line = 0; line < kLanes * int(sizeof(E)); line += 64)
              __builtin_prefetch(reinterpret_cast<const char*>(from + ahead) + line, 0, 2);
            return Elements::load(from);
          },
          [&](int row, const V& out)
              GP_INLINE_LAMBDA { Elements::template store<!Hasty>(staged_[row] + at, out); });
    if (at < columns_) {
      const int64_t rest = columns_ - at;
      alignas(64) E padded[kLanes];
      for (E& e : padded) store_element(&e, C(1));
      work(
          at,
          [&](int row) {
            std::copy_n(x + row * step + at, rest, padded);
            return Elements::load(padded);
          },
          [&](int row, const V& out) { Elements::template store<!Hasty>(staged_[row] + at, out); });
    }
    return !any_bit(met_nan);
  }

  void reset(C* carry) { std::fill_n(carry, kStripColumns, Op::template identity<C>()); }

  void add(C* carry, const C* more) {
    for (int64_t at = 0; at < columns_; at += kLanes)
      Op::apply(V::load(carry + at), V::load(more + at)).store(carry + at);
  }

  int64_t columns_, position_ = 0;
  int now_ = 0;
  alignas(64) C local_[2][kStripColumns];
  alignas(64) C c1_[kStripColumns], c2_[kStripColumns], c3_[kStripColumns];
  alignas(64) E staged_[kRows][kStripColumns];
};

// Columns that lie side by side in both tensors, in runs that are worth it.
template <class E>
bool columns_are_contiguous(const Geometry<E, 2>& g) {
  if (g.outer.extent.empty()) return false;
  const auto& inner = g.outer.stride.back();
  return inner[0] == 1 && inner[1] == 1 && g.outer.extent.back() * int64_t(sizeof(E)) >= 512;
}

template <class Op, class E>
void scan_columns(const Geometry<E, 2>& g) {
  const int64_t columns = g.outer.extent.back(), stacks = g.rows / columns;
  const int64_t line = 64 / int64_t(sizeof(E));
  // Narrower strips where there would be fewer than threads.
  const int64_t share = (g.rows + num_threads() - 1) / num_threads();
  const int64_t width = std::clamp((share + line - 1) / line * line, 4 * line, kStripColumns);
  const int64_t strips = (columns + width - 1) / width;
  const bool large = g.bytes() >= kStreamBytes;
  parallel_for(stacks * strips, 1, 2 * g.bytes(), [&](int64_t begin, int64_t end) {
    StreamWriter<E> stream;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % strips * width, count = std::min(width, columns - first);
      const auto offset = g.row_offsets(task / strips * columns + first);
      const E* x = g.base[0] + offset[0];
      E* y = g.base[1] + offset[1];
      ColumnStrip<E, Op> strip(count);
      constexpr int kRows = ColumnStrip<E, Op>::kRows;
      for (int64_t i = 0; i < g.n;) {
        const int rows = i + kRows <= g.n ? kRows : 1;
        const bool more = i + 2 * rows <= g.n;
        for (int64_t ahead = i + rows; large && more && ahead < i + 2 * rows; ++ahead)
          touch_pages(y + ahead * g.step[1], count);
        strip.put(x + i * g.step[0], g.step[0], more ? rows * g.step[0] : 0, y + i * g.step[1],
                  g.step[1], rows, large ? &stream : nullptr);
        i += rows;
      }
      stream.flush();
    }
    if (large) stream_fence();
  });
}

}  // namespace gradplan
