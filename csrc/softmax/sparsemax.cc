// sparsemax along one axis.
#include "ffi/kernel.h"
#include "lanes/visit.h"
#include "softmax/sparsemax_columns.h"
#include "softmax/sparsemax_forward.h"

namespace gradplan::softmax {
namespace {

template <class E>
void forward(const Geometry<E>& geometry) {
  const bool stream = exceeds_caches(geometry.moved());
  if (has_long_lines(geometry)) {
    for (int64_t r = 0; r < geometry.rows; ++r)
      sparsemax_long_line(line_of(geometry, r, 0), line_of(geometry, r, 1), stream);
    return;
  }
  visit_lines<2>(
      geometry, [&](auto& lines) { sparsemax_line(lines[0], lines[1], stream); },
      [&](auto& strips) { sparsemax_strip(strips[0], strips[1], geometry.n); });
}

BoundKernel bind_forward(const Problem& problem) {
  const int x = problem.at("x"), y = problem.at("y");
  const int axis = int(problem.integer("softmax_axis"));
  return {[=](const Operand* operands, char*) {
    visit_element(operands[x].dtype, [&](auto* element) {
      using E = std::remove_pointer_t<decltype(element)>;
      forward(Geometry<E>({&operands[x], &operands[y]}, axis, false));
    });
  }};
}

const Registration sparsemax({.name = "sparsemax",
                              .tensors = {"x", "y"},
                              .attributes = {{"softmax_axis"}},
                              .elements = kFloats,
                              .bind = bind_forward});

}  // namespace
}  // namespace gradplan::softmax
