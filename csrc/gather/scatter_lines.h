// Members of lines along an axis reduced by index. A line is taken in ascending order by one
// thread, so that nothing is sorted; lines that lie side by side are taken together.
//
// In the contract's order a result is one chain of operations, begun anew every 256 members.
#pragma once

#include "gather/axis_indices.h"
#include "rows/row_reduction.h"

namespace gradplan::gather {

// The members of one place that are not in a whole block yet, and the blocks.
template <class C>
struct Partial {
  C block;
  uint32_t count;
};
template <class C>
struct Whole {
  C total;
  uint32_t blocks;
};

class LineParts {
 public:
  static constexpr int64_t kMostParts = 4;
  static constexpr int64_t kMostBytes = 1 << 24;  // of one part

  LineParts() = default;
  explicit LineParts(const AxisProblem& p) : entry_(p.element == Dtype::kF64 ? 16 : 8) {
    const bool blocks = p.n > rows::kRowBlock;
    per_line_ = std::max<int64_t>(p.size, 1) * entry_ * (blocks ? 2 : 1);
    const int64_t lines = p.lines();
    together_ = std::clamp<int64_t>(kMostBytes / per_line_, 1, kLanes);
    together_ = std::min(together_, std::max<int64_t>(lines, 1));
    parts_ = std::clamp<int64_t>((lines + together_ - 1) / together_, 1, kMostParts);
  }

  int64_t together() const { return together_; }
  int64_t part_bytes() const { return (per_line_ * together_ + 63) / 64 * 64; }
  int64_t bytes() const { return parts_ * part_bytes(); }
  int64_t parts(int64_t tiles) const { return std::min<int64_t>({parts_, tiles, num_threads()}); }

 private:
  int64_t entry_ = 8, per_line_ = 0, together_ = 1, parts_ = 1;
};

// `Reducer`: rows/reducers.h. `finish(total, count, at)` is the result of a place; count 0: an
// empty one. `at` is the place in `start`, another tensor like the results, where there is one.
template <class E, class I, class Reducer>
class LineReduction {
 public:
  using C = ComputeOf<E>;

  LineReduction(const AxisProblem& p, const LineParts& parts, const Operand* t,
                const Reducer& reducer = {}, const Operand* start = nullptr)
      : p_(p),
        parts_(parts),
        x_(t[p.members]),
        ids_(t[p.ids]),
        out_(t[p.table]),
        reducer_(reducer) {
    const Shape id_strides = index_strides(p, ids_);
    for (int d = 0; d < x_.rank; ++d) {
      const Offsets strides{id_strides[d], x_.stride[d], out_.stride[d],
                            start == nullptr ? 0 : start->stride[d]};
      if (d == p.axis)
        step_ = strides;
      else
        outer_.add(x_.shape[d], strides);
    }
    if (x_.rank == 0) step_ = {0, 0, out_.stride[0], start == nullptr ? 0 : start->stride[0]};
    outer_.arrange(1);
    width_ = 1;
    if (!outer_.extent.empty() && std::abs(outer_.stride.back()[1]) < std::abs(step_[1])) {
      width_ = outer_.extent.back();
      beside_ = outer_.stride.back();
      outer_.extent.pop_back();
      outer_.stride.pop_back();
    }
    together_ = std::min(width_, parts.together());
    across_ = (width_ + together_ - 1) / together_;
    tiles_ = outer_.count() * across_;
  }

  template <class Finish>
  void run(char* workspace, const Finish& finish) const {
    const int64_t parts = parts_.parts(tiles_);
    const int64_t bytes =
        tiles_ * together_ * (p_.n * int64_t(sizeof(E) + sizeof(I)) + p_.size * 12);
    parallel_for(parts, 1, bytes, [&](int64_t part, int64_t end) {
      for (; part < end; ++part) {
        char* own = workspace + part * parts_.part_bytes();
        for (int64_t tile = part * tiles_ / parts; tile < (part + 1) * tiles_ / parts; ++tile) {
          check_interruption();
          const int64_t first = tile % across_ * together_;
          Offsets at = outer_.offsets(tile / across_);
          for (int k = 0; k < 4; ++k) at[k] += first * beside_[k];
          const int64_t width = std::min(together_, width_ - first);
          if (width == 1)
            take(at, 1, std::integral_constant<int64_t, 1>{}, own, finish);
          else if (width == kLanes)
            take(at, kLanes, std::integral_constant<int64_t, kLanes>{}, own, finish);
          else
            take(at, width, width, own, finish);
        }
      }
    });
  }

 private:
  // `width` lines side by side; W is the same number, perhaps known to the compiler.
  template <class W, class Finish>
  void take(const Offsets& at, int64_t, W width, char* workspace, const Finish& finish) const {
    const int64_t places = p_.size * width;
    auto* partial = reinterpret_cast<Partial<C>*>(workspace);
    auto* whole = reinterpret_cast<Whole<C>*>(partial + places);
    const bool blocks = p_.n > rows::kRowBlock;
    const C identity = reducer_.template identity<C>();
    std::fill(partial, partial + places, Partial<C>{identity, 0});
    if (blocks) std::fill(whole, whole + places, Whole<C>{C(0), 0});
    if (blocks)
      combine<true>(at, width, partial, whole);
    else
      combine<false>(at, width, partial, whole);
    E* to = out_.as<E>() + at[2];
    for (int64_t s = 0; s < p_.size; ++s)
      for (int64_t w = 0; w < width; ++w) {
        const Partial<C>& part = partial[s * width + w];
        C total = part.block;
        int64_t count = part.count;
        if (blocks) {
          const Whole<C>& all = whole[s * width + w];
          if (all.blocks > 0)
            total = part.count > 0 ? reducer_.combine(all.total, part.block) : all.total;
          count += int64_t(all.blocks) * rows::kRowBlock;
        }
        E* const place = to + s * step_[2] + w * beside_[2];
        store_element(place, finish(total, count, at[3] + s * step_[3] + w * beside_[3]));
      }
  }

  template <bool Blocks, class W>
  __attribute__((noinline)) void combine(const Offsets& at, W width, Partial<C>* partial,
                                         Whole<C>* whole) const {
    const I* id = ids_.as<const I>() + at[0];
    const E* x = x_.as<const E>() + at[1];
    const IndexRange range = p_.range();
    const int64_t n = p_.n, id_step = step_[0], x_step = step_[1];
    const int64_t id_beside = beside_[0], x_beside = beside_[1];
    const C identity = reducer_.template identity<C>();
    for (int64_t i = 0; i < n; ++i, id += id_step, x += x_step)
      for (int64_t w = 0; w < width; ++w) {
        const int64_t place = id[w * id_beside];
        if (!range.selects(place)) continue;
        Partial<C>& p = partial[place * width + w];
        p.block = reducer_.combine(p.block, C(load_element(x + w * x_beside)));
        ++p.count;
        if constexpr (Blocks) {
          if (p.count == uint32_t(rows::kRowBlock)) [[unlikely]] {
            Whole<C>& all = whole[place * width + w];
            all.total = all.blocks == 0 ? p.block : reducer_.combine(all.total, p.block);
            ++all.blocks;
            p = {identity, 0};
          }
        }
      }
  }

  const AxisProblem& p_;
  const LineParts& parts_;
  const Operand &x_, &ids_, &out_;
  const Reducer reducer_;
  Dimensions outer_;
  // Of indices, members, results and `start`: along the axis, and to the next line.
  Offsets step_{}, beside_{};
  int64_t width_, together_, across_, tiles_;
};

}  // namespace gradplan::gather
