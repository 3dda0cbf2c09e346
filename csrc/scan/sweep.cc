#include "scan/sweep.h"

#include "memory/streams.h"
#include "memory/threads.h"
#include "scan/square_memory.h"

namespace gradplan::scan {
namespace {

// Lane groups that walk side by side where lanes are neighbours in memory: each step then reads and
// writes up to a page in a row (4 KiB of f32), which the prefetchers and the TLB like: 64 groups
// are nearly twice as fast as 16 on 4096 x 4096 along axis 0.
constexpr int kStrip = 64;

template <class E>
struct GroupInputs final : LaneInputs<ComputeOf<E>> {
  const LaneView<E>* views;

  explicit GroupInputs(const LaneView<E>* views) : views(views) {}

  void read(int input, int64_t step, unsigned wanted,
            ComputeOf<E> (&lanes)[kLanes]) const override {
    const LaneView<E>& view = views[input];
    for (int l = 0; l < kLanes; ++l)
      if (wanted >> l & 1) lanes[l] = load_element(view.lane[l] + step * view.step);
  }
};

template <class E>
void sweep_of(const SweepKernel<ComputeOf<E>>& kernel, const RowTensors& tensors,
              const LaneRange& range, Walk walk) {
  using C = ComputeOf<E>;
  const int inputs = kernel.inputs, outputs = kernel.outputs, operands = inputs + outputs;
  const int64_t lanes = range.lanes();
  const int64_t groups = (lanes + kLanes - 1) / kLanes;
  if (groups == 0 || range.length == 0) return;
  const bool large = outputs > 0 && exceeds_caches(operands * tensors.bytes());
  const bool columns =
      !tensors.outer.extent.empty() && tensors.outer.stride.back()[operands - 1] == 1;
  const int64_t share = (groups + 2 * num_threads() - 1) / (2 * num_threads());
  const int strip = columns ? int(std::min<int64_t>(kStrip, share)) : 1;
  const int64_t strips = (groups + strip - 1) / strip;
  const int64_t strip_bytes = strip * kLanes * range.length * int64_t(sizeof(E)) * operands;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / strip_bytes);

  parallel_for(
      strips, grain, strip_bytes * strips,
      [&, inputs, outputs, operands](int64_t begin, int64_t end) {
        const int64_t length = range.length, state_size = kernel.state_size;
        const int ahead_input = kernel.ahead;
        alignas(64) char states[kStrip * kMostStateBytes];
        const auto state = [&](int g) { return states + g * state_size; };
        LaneView<E> views[kStrip * kMostSquares];
        const auto views_of = [&](int g) { return views + g * operands; };
        Square<C> squares[kMostSquares];
        LineWriter<E> writers[kMostOutputs];
        for (int64_t s = begin; s < end; ++s) {
          const int64_t first_group = s * strip;
          const int count = int(std::min<int64_t>(strip, groups - first_group));
          bool streams_rows[kMostOutputs] = {};
          for (int g = 0; g < count; ++g) {
            LaneView<E>* view = views_of(g);
            const int64_t first_lane = (first_group + g) * kLanes;
            const int used = int(std::min<int64_t>(kLanes, lanes - first_lane));
            int64_t row = first_lane % range.rows;
            int64_t start = (range.first_piece + first_lane / range.rows) * range.piece +
                            (walk == Walk::kBackwards ? range.length - 1 : 0);
            if (tensors.outer.extent.size() <= 1 &&
                row + used <= range.rows) {  // as they mostly are
              const Offsets pitch = used > 1 || row > 0 ? tensors.outer.stride[0] : Offsets{};
              for (int k = 0; k < operands; ++k) {
                E* first =
                    static_cast<E*>(tensors.data[k]) + row * pitch[k] + start * tensors.step[k];
                for (int l = 0; l < used; ++l) view[k].lane[l] = first + l * pitch[k];
              }
            } else {
              for (int l = 0; l < used; ++l) {
                const Offsets offsets = tensors.row_offsets(row);
                for (int k = 0; k < operands; ++k)
                  view[k].lane[l] =
                      static_cast<E*>(tensors.data[k]) + offsets[k] + start * tensors.step[k];
                if (++row == range.rows) {
                  row = 0;
                  start += range.piece;
                }
              }
            }
            for (int k = 0; k < operands; ++k) {
              view[k].step = walk == Walk::kBackwards ? -tensors.step[k] : tensors.step[k];
              view[k].lanes = used;
              view[k].settle(k >= inputs && large);
            }
            for (int o = 0; o < outputs; ++o) {
              // Rows are streamed one group at a time (columns need no writer).
              LaneView<E>& out = view[inputs + o];
              if (out.stream && out.access == Access::kRows) {
                streams_rows[o] = strip == 1;
                out.stream = streams_rows[o];
                if (streams_rows[o]) writers[o].start(out.lane, out.step < 0);
              }
            }
            kernel.begin(state(g), GroupInputs<E>(view), range, first_lane, used);
          }
          for (int64_t step = 0; step < length; step += kGroup) {
            if (step % kChunk == 0 && step > 0) check_interruption();
            const int steps = int(std::min<int64_t>(kGroup, length - step));
            const bool last = step + steps == length;
            for (int g = 0; g < count; ++g) {
              if (step % kBlock == 0 && step > 0) kernel.next_block(state(g), step % kChunk == 0);
              const LaneView<E>* view = views_of(g);
              for (int k = 0; k < inputs; ++k) {
                const bool ahead = k == ahead_input;
                load_square(view[k], step + ahead, steps - (ahead && last), squares[k], C(1));
              }
              kernel.square(state(g), squares, step, steps, length);
              for (int o = 0; o < outputs; ++o)
                store_square(view[inputs + o], step, steps, squares[inputs + o], writers[o]);
            }
          }
          for (int o = 0; o < outputs; ++o)
            if (streams_rows[o]) writers[o].finish();
          for (int g = 0; g < count; ++g) {
            const int64_t first_lane = (first_group + g) * kLanes;
            kernel.end(state(g), range, first_lane,
                       int(std::min<int64_t>(kLanes, lanes - first_lane)));
          }
        }
        if (large) stream_fence();
      });
}

}  // namespace

template <>
void sweep(const SweepKernel<float>& kernel, const RowTensors& tensors, const LaneRange& range,
           Walk walk) {
  if (tensors.dtype == Dtype::kF16) return sweep_of<F16>(kernel, tensors, range, walk);
  if (tensors.dtype == Dtype::kBF16) return sweep_of<BF16>(kernel, tensors, range, walk);
  sweep_of<float>(kernel, tensors, range, walk);
}

template <>
void sweep(const SweepKernel<double>& kernel, const RowTensors& tensors, const LaneRange& range,
           Walk walk) {
  sweep_of<double>(kernel, tensors, range, walk);
}

}  // namespace gradplan::scan
