// Scans of parts of rows: with what comes in from the parts before, and what a part hands on.
//
// A part of a row begins at a multiple of 4096 in the order of the scan, so that its chunks are
// those of the whole row. Every kind carries one value across a chunk's end: C3 of a plain scan, T2
// of a recurrence. Values of rows are of the compute type.
#include <bit>
#include <cmath>
#include <tuple>

#include "lanes/visit.h"
#include "memory/threads.h"
#include "scan/linear_recurrence.h"
#include "scan/log_backward.h"
#include "scan/record_scan.h"
#include "scan/scan.h"

namespace gradplan::scan {
namespace {

const std::vector<std::string> kKinds = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};

// Tensors with the axis and values of rows; `element` is the type of the former.
RowTensors tensors_and_values(std::initializer_list<const Operand*> operands, int axis,
                              bool reverse, Dtype element) {
  RowTensors all(operands, axis, reverse);
  all.dtype = element;
  return all;
}

template <class C>
RowValues values_of(const RowTensors& tensors, int operand) {
  return {tensors, operand, sizeof(C) == 4 ? Dtype::kF32 : Dtype::kF64};
}

struct Part {
  std::string kind;
  Shape shape;
  Dtype element;
  int axis;
  bool reverse, ties_last;
  int64_t rows = 1, n = 1;

  explicit Part(const Problem& problem)
      : kind(problem.text("kind")),
        shape(problem.shape[0]),
        element(problem.element()),
        axis(int(problem.integer("scan_axis"))),
        reverse(problem.flag("reverse")),
        ties_last(problem.has("ties") && problem.text("ties") == "last") {
    std::tie(rows, n) = rows_and_length(shape, axis);
  }
};

BoundKernel bind_part(const Problem& problem) {
  const Part part(problem);
  const int x = problem.at("x"), before = problem.at("before"), carry = problem.at("carry"),
            y = problem.at("y");
  if (part.kind != "logcumsumexp")
    return bind_prefix_scan(part.kind, part.element, part.shape, part.axis, part.reverse, x, y,
                            carry);
  return visit_compute(part.element, [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              const Repeated level(t[before], t[x], part.axis), start(t[carry], t[x], part.axis);
              const RowTensors all = tensors_and_values({&level, &start, &t[x], &t[y]}, part.axis,
                                                        part.reverse, part.element);
              log_scan<C>(all.only(2, 2), workspace, values_of<C>(all, 0), values_of<C>(all, 1));
            },
            log_scan_workspace<C>(part.rows, part.n)};
  });
}

BoundKernel bind_part_backward(const Problem& problem) {
  const Part part(problem);
  const int dy = problem.at("dy"), x = problem.at("x"), y = problem.at("y"),
            before = problem.at("before"), behind = problem.at("behind"),
            carry = problem.at("carry"), dx = problem.at("dx");
  if (part.kind == "cumsum")
    return bind_prefix_scan(part.kind, part.element, part.shape, part.axis, !part.reverse, dy, dx,
                            carry);
  return visit_compute(part.element, [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    const Cut cut = Cut::of(part.rows, part.n);
    // f(all, workspace): behind, before and carry, dy, a second and a third tensor, dx.
    const auto bound = [&](int second, int third, int64_t bytes, auto f) -> BoundKernel {
      return {
          [=](const Operand* t, char* workspace) {
            const Repeated ends(t[behind], t[dy], part.axis), begins(t[before], t[dy], part.axis),
                start(t[carry], t[dy], part.axis);
            f(tensors_and_values({&ends, &begins, &start, &t[dy], &t[second], &t[third], &t[dx]},
                                 part.axis, !part.reverse, part.element),
              workspace);
          },
          bytes};
    };
    const auto recurrence = [=](const auto& policy, const RowTensors& all, char* workspace) {
      const RecurrenceCarries<C> carries(workspace, cut);
      run_recurrence(policy, all.only(4, 3), cut, &carries, values_of<C>(all, 2));
    };
    if (part.kind == "cumprod")
      return bound(x, y, recurrence_workspace<C>(cut), [=](const RowTensors& all, char* workspace) {
        recurrence(
            LinearRecurrence<C, CumprodGradient>{
                values_of<C>(all, 0), C(1), {}, values_of<C>(all, 1)},
            all, workspace);
      });
    if (part.kind == "logcumsumexp")
      return bound(y, x, recurrence_workspace<C>(cut), [=](const RowTensors& all, char* workspace) {
        recurrence(LogBackward<C>{{}, values_of<C>(all, 1)}, all, workspace);
      });
    const auto records = [&](auto op) {
      return bound(x, dy, record_scan_workspace<C>(part.rows, part.n),
                   [=](const RowTensors& all, char* workspace) {
                     // x, dy, dx
                     record_scan<C, decltype(op)>(all.only(3, 4), part.ties_last, workspace,
                                                  values_of<C>(all, 1), values_of<C>(all, 2));
                   });
    };
    return part.kind == "cummax" ? records(Maximum{}) : records(Minimum{});
  });
}

// Stores what rows hand on: from the carries that a sweep has filled, by f(l, gain fields, values).
template <class C, int N, class F>
void store_totals(const RowTensors& all, const RecurrenceCarries<C>& carries, F&& f) {
  FloatEnvironment environment;
  RowValues to[N];
  for (int k = 0; k < N; ++k) to[k] = values_of<C>(all, k);
  for (int64_t row = 0; row < all.rows; ++row) {
    const C fields[2] = {carries.gain[0][row], carries.gain[1][row]};
    C values[3] = {C(-0.0), C(1), C(0)};  // of rows without elements
    if (all.n > 0) {
      values[0] = carries.l[row];
      f(fields, values);
    }
    for (int k = 0; k < N; ++k) to[k].store(row, values[k]);
  }
}

// Its sweep may need memory of its own, behind the carries.
template <class C>
int64_t totals_bytes(int64_t rows) {
  return (PieceArrays<C>::bytes(rows, RecurrenceCarries<C>::kArrays) + 63) / 64 * 64;
}

template <class C>
RecurrenceCarries<C> totals_of(char* workspace, int64_t rows) {
  RecurrenceCarries<C> carries(workspace, std::max<int64_t>(rows, 1));
  carries.memory = nullptr;
  return carries;
}

BoundKernel bind_part_total(const Problem& problem) {
  const Part part(problem);
  const int x = problem.at("x"), before = problem.at("before"), total = problem.at("total"),
            gain = problem.at("gain");
  if (part.kind != "logcumsumexp")
    return bind_prefix_totals(part.kind, part.element, part.shape, part.axis, part.reverse, x,
                              total, gain);
  return visit_compute(part.element, [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char* workspace) {
              const Repeated level(t[before], t[x], part.axis), l(t[total], t[x], part.axis),
                  a(t[gain], t[x], part.axis);
              const RowTensors all = tensors_and_values({&l, &a, &level, &t[x]}, part.axis,
                                                        part.reverse, part.element);
              const auto carries = totals_of<C>(workspace, part.rows);
              total_recurrence(LogScanPolicy<C>{{}, values_of<C>(all, 2)}, all.only(1, 3), carries);
              store_totals<C, 2>(all, carries, [](const C* levels, C* values) {
                values[1] = exp_difference(levels[0], levels[1]);
              });
            },
            totals_bytes<C>(part.rows)};
  });
}

BoundKernel bind_part_backward_total(const Problem& problem) {
  const Part part(problem);
  const int dy = problem.at("dy"), x = problem.at("x"), y = problem.at("y"),
            before = problem.at("before"), total = problem.at("total"), gain = problem.at("gain"),
            exponent = problem.at("exponent");
  return visit_compute(part.element, [&](auto* tag) -> BoundKernel {
    using C = std::remove_pointer_t<decltype(tag)>;
    const Cut cut{part.rows, part.n, std::max<int64_t>(part.n, 1)};
    // f(all, workspace): the three results, before, dy, another tensor.
    const auto bound = [&](int second, int64_t more_bytes, auto f) -> BoundKernel {
      return {[=](const Operand* t, char* workspace) {
                const Repeated l(t[total], t[dy], part.axis), a(t[gain], t[dy], part.axis),
                    e(t[exponent], t[dy], part.axis), begins(t[before], t[dy], part.axis);
                f(tensors_and_values({&l, &a, &e, &begins, &t[dy], &t[second]}, part.axis,
                                     !part.reverse, part.element),
                  workspace, totals_of<C>(workspace, part.rows));
              },
              totals_bytes<C>(part.rows) + more_bytes};
    };
    const auto as_they_are = [](const C* fields, C* values) { values[1] = fields[0]; };
    if (part.kind == "cumsum")  // the recurrence would have another order
      return bind_prefix_totals(part.kind, part.element, part.shape, part.axis, !part.reverse, dy,
                                total, gain, exponent);
    if (part.kind == "cumprod")
      return bound(x, 0, [](const RowTensors& all, char*, const RecurrenceCarries<C>& carries) {
        total_recurrence(LinearRecurrence<C, CumprodGradient>{{}, C(1), {}, values_of<C>(all, 3)},
                         all.only(2, 4), carries);
        store_totals<C, 3>(all, carries, [](const C* fields, C* values) {
          values[1] = fields[0];
          const bool ordinary = std::isfinite(fields[0]) && fields[0] != C(0);
          if (ordinary) values[2] = C(std::bit_cast<IntOf<C>>(fields[1]));
        });
      });
    if (part.kind == "logcumsumexp")
      return bound(y, 0, [](const RowTensors& all, char*, const RecurrenceCarries<C>& carries) {
        total_recurrence(LogBackward<C>{{}, values_of<C>(all, 3)}, all.only(2, 4), carries);
        store_totals<C, 3>(all, carries, [](const C* levels, C* values) {
          values[1] = LogBackward<C>::factor(levels[1], levels[0]);
        });
      });
    const auto records = [&](auto op) {
      return bound(
          x, mark_bytes(cut),
          [=](const RowTensors& all, char* workspace, const RecurrenceCarries<C>& carries) {
            if (part.n > 0) {
              const Marks marks = mark_records<C, decltype(op)>(
                  all.only(1, 5), cut, part.ties_last, values_of<C>(all, 3),
                  static_cast<C*>(nullptr), workspace + totals_bytes<C>(part.rows));
              total_recurrence(RecordPolicy<C>{marks}, all.only(1, 4), carries);
            }
            store_totals<C, 3>(all, carries, as_they_are);
          });
    };
    return part.kind == "cummax" ? records(Maximum{}) : records(Minimum{});
  });
}

// What comes out of each part if they follow one another: serially along the axis.
template <class E, class Join>
void fold(const RowTensors& all, Join&& join) {
  using C = ComputeOf<E>;
  parallel_for(all.rows, 1, 4 * all.bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = all.row_offsets(row);
      const auto at = [&](int k, int64_t i) {
        return static_cast<E*>(all.data[k]) + offset[k] + i * all.step[k];
      };
      C carry{};
      for (int64_t i = 0; i < all.n; ++i) {
        const C total = load_element(at(0, i));
        carry = i == 0 ? total : join(total, load_element(at(1, i)), load_element(at(2, i)), carry);
        store_element(at(3, i), carry);
      }
    }
  });
}

// An exponent as a number: whatever it is, no product gets out of range.
template <class C>
IntOf<C> exponent_of(C e) {
  constexpr C kMost = C(1 << 24);
  return e != e ? IntOf<C>(0) : IntOf<C>(std::clamp(e, -kMost, kMost));
}

template <class E>
void fold_of(const std::string& kind, bool backward, const RowTensors& all) {
  using C = ComputeOf<E>;
  using Records = RecordPolicy<C>;
  const auto plain = [&](auto op) {
    fold<E>(all, [](C total, C, C, C carry) { return decltype(op)::apply(carry, total); });
  };
  if (kind == "cumsum") return plain(Sum{});
  if (kind == "logcumsumexp")
    return fold<E>(all, [](C total, C gain, C, C carry) { return total + gain * carry; });
  if (!backward)
    return kind == "cumprod"  ? plain(Product{})
           : kind == "cummax" ? plain(Maximum{})
                              : plain(Minimum{});
  if (kind == "cumprod")
    return fold<E>(all, [](C total, C m, C e, C carry) {
      return LinearRecurrence<C, CumprodGradient>::join(total, Scaled<C>{m, exponent_of(e)}, carry);
    });
  fold<E>(all, [](C total, C passes, C, C carry) {
    return Records::join(total, typename Records::template Gain<C>{passes}, carry);
  });
}

BoundKernel bind_part_fold(const Problem& problem) {
  const std::string kind = problem.text("kind");
  const int axis = int(problem.integer("scan_axis"));
  const bool reverse = problem.flag("reverse"), backward = problem.flag("backward");
  const int total = problem.at("total"), gain = problem.at("gain"),
            exponent = problem.at("exponent"), carry = problem.at("carry");
  return visit_element(problem.element(), [&](auto* tag) -> BoundKernel {
    using E = std::remove_pointer_t<decltype(tag)>;
    return {[=](const Operand* t, char*) {
      fold_of<E>(kind, backward,
                 RowTensors({&t[total], &t[gain], &t[exponent], &t[carry]}, axis, reverse));
    }};
  });
}

const Attribute kKind{"kind", kKinds}, kAxis{"scan_axis"}, kReverse{"reverse"},
    kTies{"ties", {"first", "last"}};
const Registration part({.name = "scan_part",
                         .tensors = {"x", "before", "carry", "y"},
                         .attributes = {kKind, kAxis, kReverse},
                         .elements = kFloats,
                         .bind = bind_part});
const Registration part_backward({.name = "scan_part_gradient",
                                  .tensors = {"dy", "x", "y", "before", "behind", "carry", "dx"},
                                  .attributes = {kKind, kAxis, kReverse, kTies},
                                  .elements = kFloats,
                                  .bind = bind_part_backward});
const Registration part_total({.name = "scan_part_total",
                               .tensors = {"x", "before", "total", "gain"},
                               .attributes = {kKind, kAxis, kReverse},
                               .elements = kFloats,
                               .bind = bind_part_total});
const Registration part_backward_total({.name = "scan_part_gradient_total",
                                        .tensors = {"dy", "x", "y", "before", "total", "gain",
                                                    "exponent"},
                                        .attributes = {kKind, kAxis, kReverse, kTies},
                                        .elements = kFloats,
                                        .bind = bind_part_backward_total});
const Registration part_fold({.name = "scan_part_fold",
                              .tensors = {"total", "gain", "exponent", "carry"},
                              .attributes = {kKind, kAxis, kReverse, {"backward"}},
                              .elements = kFloats,
                              .bind = bind_part_fold});

}  // namespace
}  // namespace gradplan::scan
