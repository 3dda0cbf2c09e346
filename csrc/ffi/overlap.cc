#include "ffi/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace gradplan::ffi {
namespace {

struct Term {
  int64_t stride;  // bytes, positive
  int64_t last;    // the largest index
};

// First byte of the tensor's span; appends its dimensions with positive strides.
int64_t lowest_byte(const Operand& t, std::vector<Term>& terms) {
  int64_t low = reinterpret_cast<int64_t>(t.data);
  const int64_t item = item_size(t.dtype);
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] <= 1 || t.stride[d] == 0) continue;
    const int64_t stride = t.stride[d] * item;
    if (stride < 0) low += stride * (t.shape[d] - 1);
    terms.push_back({std::abs(stride), t.shape[d] - 1});
  }
  return low;
}

int64_t reach(const std::vector<Term>& terms) {
  int64_t sum = 0;
  for (const Term& t : terms) sum += t.stride * t.last;
  return sum;
}

bool is_empty(const Operand& t) {
  return std::any_of(t.shape, t.shape + t.rank, [](int64_t extent) { return extent == 0; });
}

// Is there a choice of indices with low <= sum(index * stride) <= high? Terms by falling stride;
// `rest` is what the terms from `at` on can reach. For dimensions that nest, few indices are
// possible at each level, so the search is short; the budget guards against tangled ones.
bool solvable(const std::vector<Term>& terms, size_t at, int64_t rest, int64_t low, int64_t high,
              int& budget) {
  if (high < 0 || low > rest) return false;
  if (at == terms.size()) return low <= 0;
  if (--budget < 0) return true;
  const Term& t = terms[at];
  rest -= t.stride * t.last;
  int64_t first = low - rest > 0 ? (low - rest + t.stride - 1) / t.stride : 0;
  const int64_t last = std::min(t.last, high / t.stride);
  for (; first <= last; ++first) {
    if (solvable(terms, at + 1, rest, low - first * t.stride, high - first * t.stride, budget))
      return true;
  }
  return false;
}

}  // namespace

bool may_overlap(const Operand& a, const Operand& b) {
  if (is_empty(a) || is_empty(b)) return false;
  std::vector<Term> of_a, of_b;
  const int64_t low_a = lowest_byte(a, of_a), low_b = lowest_byte(b, of_b);
  const int64_t reach_a = reach(of_a), reach_b = reach(of_b);
  const int64_t size_a = item_size(a.dtype), size_b = item_size(b.dtype);
  if (low_a + reach_a + size_a <= low_b || low_b + reach_b + size_b <= low_a) return false;
  // An element of a starts at low_a + A, one of b at low_b + reach_b - B' (indices counted from b's
  // end). They share a byte if -size_b < start_b - start_a < size_a, that is if A + B' lies
  // strictly between gap - size_a and gap + size_b.
  std::vector<Term> terms = of_a;
  terms.insert(terms.end(), of_b.begin(), of_b.end());
  std::sort(terms.begin(), terms.end(),
            [](const Term& s, const Term& t) { return s.stride > t.stride; });
  const int64_t gap = low_b + reach_b - low_a;
  int budget = 4096;
  return solvable(terms, 0, reach_a + reach_b, gap - size_a + 1, gap + size_b - 1, budget);
}

bool may_overlap_itself(const Operand& t) {
  if (is_empty(t)) return false;
  for (int d = 0; d < t.rank; ++d)
    if (t.shape[d] > 1 && t.stride[d] == 0) return true;
  std::vector<Term> terms;
  lowest_byte(t, terms);
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.stride < b.stride; });
  int64_t inner = item_size(t.dtype);
  for (const Term& term : terms) {
    if (term.stride < inner) return true;
    inner = term.stride * term.last + inner;
  }
  return false;
}

bool same_memory(const Operand& a, const Operand& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[d] != b.shape[d]) return false;
    if (a.shape[d] > 1 && a.stride[d] != b.stride[d]) return false;
  }
  return true;
}

}  // namespace gradplan::ffi
