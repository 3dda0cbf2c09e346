// segment_csr, segment_csr_softmax and their gradients: segments by pointers.
#include "lanes/visit.h"
#include "rows/index_check.h"
#include "rows/segments.h"

namespace gradplan::rows {
namespace {

struct Pointers {
  int at;  // the operand
  int operands;
  int64_t rows, segments;  // what they point into, and how many there are but for one
  std::string plan;

  // Ids of segments, and the number behind the last.
  Dtype id_type() const { return segments < INT32_MAX ? Dtype::kI32 : Dtype::kI64; }
  int64_t ids_size() const { return (rows * item_size(id_type()) + 63) / 64 * 64; }

  template <class I>
  void check(const IndexView<I>& indptr) const {
    const IndexRule rule{.plan = plan, .ids = "indptr", .range = {.rows = rows + 1}};
    const auto refuse = [&](const char* error, const std::string& what) {
      throw PlanError(error, plan + ": " + what);
    };
    int64_t at = find_first_index(
        indptr, segments, [](const auto& value, int64_t i) { return value(i + 1) < value(i); });
    if (at < segments)
      refuse("InvalidProblem", describe_index(rule, indptr, at + 1) + " after " +
                                   describe_index(rule, indptr, at) +
                                   ": expected pointers in ascending order");
    at = find_first_index(indptr, indptr.count, [range = rule.range](const auto& value, int64_t i) {
      return range.offends(value(i));
    });
    if (at < indptr.count)
      refuse("IndexOutOfRange", describe_index(rule, indptr, at) + ": expected a pointer in [0, " +
                                    std::to_string(rows) + "]");
  }

  // Rows before the first pointer and behind the last are in no segment.
  template <class I, class Id>
  void write_ids(const IndexView<I>& indptr, Id* ids) const {
    const int64_t bytes = rows * int64_t(sizeof(Id)) + indptr.count * int64_t(sizeof(I));
    parallel_for(segments + 2, 64, bytes, [&](int64_t s, int64_t end) {
      for (; s < end; ++s) {
        const int64_t from = s == 0 ? 0 : int64_t(indptr[s - 1]);
        const int64_t to = s > segments ? rows : int64_t(indptr[s]);
        std::fill(ids + from, ids + to, Id(s - 1));
      }
    });
  }

  void run(const Operand* t, char* workspace, const Launch& by_ids) const {
    visit_index(t[at].dtype, [&](auto* i) {
      const IndexView<std::remove_pointer_t<decltype(i)>> indptr(t[at]);
      check(indptr);
      visit_index(id_type(), [&](auto* id) {
        write_ids(indptr, reinterpret_cast<std::remove_pointer_t<decltype(id)>*>(workspace));
      });
    });
    const int64_t one = 1;
    std::vector<Operand> given(t, t + operands);
    given[at] = {workspace, id_type(), 1, &rows, &one};
    by_ids(given.data(), workspace + ids_size());
  }
};

// A kernel of segments by pointers, made of the one by ids: `bind` gets the problem with ids in
// ascending order in the place of the pointers. A call checks these, writes the ids to its
// workspace and goes on with them. `of_rows` is a tensor with the rows.
template <class Bind>
BoundKernel by_pointers(const Problem& problem, const std::string& of_rows, const Bind& bind) {
  const int at = problem.at("indptr");
  const Pointers pointers{.at = at,
                          .operands = int(problem.shape.size()),
                          .rows = problem.shape[problem.at(of_rows)][0],
                          .segments = problem.shape[at][0] - 1,
                          .plan = problem.plan};
  Problem of_ids = problem;
  of_ids.slot["segment_ids"] = at;
  of_ids.shape[at] = {pointers.rows};
  of_ids.attributes["num_segments"] = pointers.segments;
  of_ids.attributes["bounds"] = "skip";
  of_ids.attributes["sorted"] = int64_t{1};
  BoundKernel kernel = bind(of_ids);
  kernel.workspace_size += pointers.ids_size();
  kernel.launch = [pointers, by_ids = std::move(kernel.launch)](const Operand* t, char* workspace) {
    pointers.run(t, workspace, by_ids);
  };
  return kernel;
}

BoundKernel bind_reduce(const Problem& problem) {
  return by_pointers(problem, "input", [](const Problem& of_ids) {
    return of_ids.text("kind") == "sum" ? bind_segment_sum(of_ids, true)
                                        : bind_segment_reduce(of_ids, true);
  });
}

BoundKernel bind_reduce_backward(const Problem& problem) {
  return by_pointers(problem, "d_input", [](const Problem& of_ids) {
    return of_ids.text("kind") == "sum" ? bind_segment_sum_backward(of_ids)
                                        : bind_segment_reduce_backward(of_ids);
  });
}

BoundKernel bind_softmax(const Problem& problem) {
  return by_pointers(problem, "input",
                     [](const Problem& of_ids) { return bind_segment_softmax(of_ids, true); });
}

BoundKernel bind_softmax_backward(const Problem& problem) {
  return by_pointers(problem, "d_input", bind_segment_softmax_backward);
}

const std::vector<std::string> kKinds = {"sum", "mean", "max", "min", "prod", "logsumexp"};
const std::vector<Attribute> kSoftmax = {{"kind", {"softmax", "log_softmax"}}};
const Registration reduce({.name = "segment_csr",
                           .tensors = {"input", "indptr", "output"},
                           .attributes = {{"kind", kKinds}, {"fill"}},
                           .elements = kFloats,
                           .bind = bind_reduce});
const Registration reduce_backward({.name = "segment_csr_backward",
                                    .tensors = {"d_output", "input", "output", "indptr", "d_input"},
                                    .attributes = {{"kind", kKinds},
                                                   {"ties", {"first", "last", "share"}}},
                                    .elements = kFloats,
                                    .bind = bind_reduce_backward});
const Registration softmax({.name = "segment_csr_softmax",
                            .tensors = {"input", "indptr", "output"},
                            .attributes = kSoftmax,
                            .elements = kFloats,
                            .bind = bind_softmax});
const Registration softmax_backward({.name = "segment_csr_softmax_backward",
                                     .tensors = {"d_output", "output", "indptr", "d_input"},
                                     .attributes = kSoftmax,
                                     .elements = kFloats,
                                     .bind = bind_softmax_backward});

}  // namespace
}  // namespace gradplan::rows
