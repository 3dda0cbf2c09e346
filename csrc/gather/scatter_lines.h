// Members of lines along an axis reduced by index. A line is taken in ascending order by one
// thread, so that nothing is sorted; lines that lie side by side are taken together.
//
// In the contract's order a result is one chain of operations, begun anew every 256 members.
#pragma once

#include "gather/axis_indices.h"
#include "memory/streams.h"
#include "rows/row_reduction.h"

namespace gradplan::gather {

// The members of one place that are not in a whole block yet, and the blocks.
template <class C>
struct Partials {
  C* block;
  uint16_t* count;  // of members, below 256
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

constexpr int64_t kStage = 256;  // results that are made before they are streamed

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
    const bool large = exceeds_caches(bytes);
    parallel_for(parts, 1, bytes, [&](int64_t part, int64_t end) {
      StreamWriter<E> writer;
      StreamWriter<E>* const stream = large ? &writer : nullptr;
      for (; part < end; ++part) {
        char* own = workspace + part * parts_.part_bytes();
        for (int64_t tile = part * tiles_ / parts; tile < (part + 1) * tiles_ / parts; ++tile) {
          check_interruption();
          const int64_t first = tile % across_ * together_;
          Offsets at = outer_.offsets(tile / across_);
          for (int k = 0; k < 4; ++k) at[k] += first * beside_[k];
          const int64_t width = std::min(together_, width_ - first);
          if (width == 1)
            take(at, std::integral_constant<int64_t, 1>{}, own, stream, finish);
          else if (width == kLanes)
            take(at, std::integral_constant<int64_t, kLanes>{}, own, stream, finish);
          else
            take(at, width, own, stream, finish);
        }
      }
      writer.flush();
      if (stream) stream_fence();
    });
  }

 private:
  // `width` lines side by side; W is the same number, perhaps known to the compiler.
  template <class W, class Finish>
  void take(const Offsets& at, W width, char* workspace, StreamWriter<E>* stream,
            const Finish& finish) const {
    const int64_t places = p_.size * width;
    auto* block = reinterpret_cast<C*>(workspace);
    const Partials<C> partial{block, reinterpret_cast<uint16_t*>(block + places)};
    auto* whole = reinterpret_cast<Whole<C>*>(workspace + places * int64_t(sizeof(Whole<C>)));
    std::fill_n(partial.block, places, reducer_.template identity<C>());
    std::fill_n(partial.count, places, uint16_t{0});
    const bool blocks = p_.n > rows::kRowBlock ? combine<true>(at, width, partial, whole)
                                               : combine<false>(at, width, partial, whole);
    const auto result = [&](int64_t s, int64_t w) GP_INLINE_LAMBDA {
      const int64_t place = s * width + w, start = at[3] + s * step_[3] + w * beside_[3];
      const C part = partial.block[place];
      const int64_t count = partial.count[place];
      if (!blocks) [[likely]]
        return finish(part, count, start);
      const Whole<C>& all = whole[place];
      const C total = all.blocks == 0 ? part
                      : count > 0     ? reducer_.combine(all.total, part)
                                      : all.total;
      return finish(total, count + int64_t(all.blocks) * rows::kRowBlock, start);
    };
    E* to = out_.as<E>() + at[2];
    if (width == 1 && step_[2] == 1) {
      for (int64_t s = 0; s < p_.size; s += kStage) {
        const int64_t some = std::min(kStage, p_.size - s);
        alignas(64) E staged[kStage];
        for (int64_t i = 0; i < some; ++i) store_element(staged + i, result(s + i, 0));
        if (stream)
          stream->put(staged, to + s, some);
        else
          std::copy_n(staged, some, to + s);
      }
      return;
    }
    for (int64_t s = 0; s < p_.size; ++s)
      for (int64_t w = 0; w < width; ++w)
        store_element(to + s * step_[2] + w * beside_[2], result(s, w));
  }

  // Whether some place has a whole block: before that nothing is kept of them, for most lines have
  // none and the caches are small (scatter_add of 4096 x 4096: 0.71
  // -> 1.16 of PyTorch's speed, with what else is written here).
  template <bool Blocks, class W>
  __attribute__((noinline)) bool combine(const Offsets& at, W width, const Partials<C>& partial,
                                         Whole<C>* whole) const {
    const I* id = ids_.as<const I>() + at[0];
    const E* x = x_.as<const E>() + at[1];
    const IndexRange range = p_.range();
    const int64_t n = p_.n, id_step = step_[0], x_step = step_[1];
    const int64_t id_beside = beside_[0], x_beside = beside_[1];
    const C identity = reducer_.template identity<C>();
    bool any = false;
    for (int64_t i = 0; i < n; ++i, id += id_step, x += x_step)
      for (int64_t w = 0; w < width; ++w) {
        const int64_t id_here = id[w * id_beside];
        if (!range.selects(id_here)) continue;
        const int64_t place = id_here * width + w;
        C& block = partial.block[place];
        block = reducer_.combine(block, C(load_element(x + w * x_beside)));
        uint16_t& count = partial.count[place];
        ++count;
        if constexpr (Blocks) {
          if (count == rows::kRowBlock) [[unlikely]] {
            if (!any) std::fill_n(whole, p_.size * width, Whole<C>{C(0), 0});
            any = true;
            Whole<C>& all = whole[place];
            all.total = all.blocks == 0 ? block : reducer_.combine(all.total, block);
            ++all.blocks;
            block = identity;
            count = 0;
          }
        }
      }
    return any;
  }

  const AxisProblem& p_;
  const LineParts& parts_;
  const Operand &x_, &ids_, &out_;
  const Reducer reducer_;
  Dimensions outer_;
  Offsets step_{},
      beside_{};  // of indices, members, results and `start`: along the axis, and to the next line
  int64_t width_, together_, across_, tiles_;
};

}  // namespace gradplan::gather
