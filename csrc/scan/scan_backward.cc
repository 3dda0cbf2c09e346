// Scans backward. Position 0 of every sweep is the end of the forward scan.
#include "lanes/visit.h"
#include "scan/linear_recurrence.h"
#include "scan/log_scan.h"
#include "scan/record_scan.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

// dx = t exp(x - y), t[q] = dy[q] + exp(y[q] - y[q-1]) t[q-1]. Inputs: dy, y, x.
template <class Compute>
struct LogBackward : LevelGains {
  using C = Compute;
  static constexpr int kInputs = 3, kSummaryInputs = 2;

  template <bool Emit>
  void begin(Memory<Lanes<C>>& memory, const LaneInputs<C>& inputs, const LaneRange& range,
             int64_t lane, int lanes, int64_t, const C*) const {
    memory.level = before_lanes(inputs, 1, range, lane, lanes);
  }

  // exp(y - before), 0 where y is -inf: everything in front of it is masked.
  template <class V>
  GP_INLINE static V factor(const V& y, const V& before) {
    using T = ElementOf<V>;
    const V lowest = V(-std::numeric_limits<T>::infinity());
    return select(y == lowest, V(T(0)), exp_difference(y, before));
  }

  template <class V>
  static V join(const V& l, const Gain<V>& gain, const V& v) {
    return l + factor(gain.to, gain.from) * v;
  }
  template <bool Emit, bool Summary, class State>
  void square(State& s, Square<C>* squares, int64_t, int count, bool first) const {
    using V = Lanes<C>;
    V a[kLanes];
#pragma GCC unroll 1
    for (int i = 0; i < count; ++i)
      a[i] = factor(squares[1].get(i), i == 0 ? s.memory.level : squares[1].get(i - 1));
    s.memory.level = squares[1].get(count - 1);
    if constexpr (Summary) {
      V l = s.l;
      for (int i = 0; i < count; ++i) {
        const V dy = squares[0].get(i);
        l = first && i == 0 ? dy : dy + a[i] * l;
      }
      s.l = l;
    }
    if constexpr (Emit) {
      V t = s.t;
      for (int i = 0; i < count; ++i) {
        const V dy = squares[0].get(i), next = dy + a[i] * t;
        t = first && i == 0 ? select(s.has_t, next, dy) : next;
        a[i] = t;
      }
      s.t = t;
      const V lowest = V(-std::numeric_limits<C>::infinity());
#pragma GCC unroll 1
      for (int i = 0; i < count; ++i) {
        const V x = squares[2].get(i);
        squares[3].set(i,
                       select(x == lowest, V(C(0)), a[i] * exp_difference(x, squares[1].get(i))));
      }
    }
  }
};

}  // namespace

BoundKernel bind_scan_backward(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse");
  const bool last = problem.text("ties") == "last";
  const Shape shape = problem.shape[0];
  const auto [rows, n] = rows_and_length(shape, axis);
  const int dy = problem.at("dy"), x = problem.at("x"), y = problem.at("y"), dx = problem.at("dx");
  if (kind == "cumsum")
    return bind_prefix_scan(kind, problem.element(), shape, axis, !reverse, dy, dx);
  return visit_compute(problem.element(), [&, rows = rows, n = n](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    const Cut cut = Cut::of(rows, n);
    const auto recurrence = [&](auto policy, int second, int third) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RecurrenceCarries<C> carries(workspace, cut);
                const RowTensors tensors({&t[dy], &t[second], &t[third], &t[dx]}, axis, !reverse);
                run_recurrence(policy, tensors, cut, &carries);
              },
              recurrence_workspace<C>(cut)};
    };
    const auto records = [&](auto op) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const RowTensors tensors({&t[x], &t[dy], &t[dx]}, axis, !reverse);
                record_scan<C, decltype(op)>(tensors, last, workspace);
              },
              record_scan_workspace<C>(rows, n)};
    };
    // dx = y_before t, t[q] = dy[q] + x[q-1] t[q-1]; nothing before the first element is a 1.
    if (kind == "cumprod") return recurrence(LinearRecurrence<C, CumprodGradient>{{}, C(1)}, x, y);
    if (kind == "logcumsumexp") return recurrence(LogBackward<C>{}, y, x);
    if (kind == "cummax") return records(Maximum{});
    if (kind == "cummin") return records(Minimum{});
    throw PlanError("Unsupported", problem.plan + ": no gradient of kind '" + kind + "'");
  });
}

}  // namespace gradplan::scan
