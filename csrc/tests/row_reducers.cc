// Other reducers than the sum in the row kernels, against a loop: that they are templates over an
// operation is a claim, and this is its check. Prints the number of differences per reducer; with
// the argument "wrong" the loop keeps the first member instead, and must be found out.
#include "rows/row_reducers.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace gradplan::rows {
namespace {

// What a reducer of some state looks like: a sum with a weight for every row of the input.
struct WeightedSum : Reducer<Sum> {
  const float* weights;
  int64_t row_stride;

  template <class V>
  V take(const V& value, int64_t offset) const {
    return value * broadcast<V>(weights[offset / row_stride]);
  }
};

// Empty rows are -inf, and what is written is twice the maximum.
struct TwiceTheMaximum : Reducer<Maximum> {
  template <class V>
  static V finish(const V& v, int64_t) {
    return v + v;
  }
  template <class C>
  static C empty() {
    return -std::numeric_limits<C>::infinity();
  }
};

struct Rows {
  int64_t members, rows, width;
  std::vector<float> values;
  std::vector<int64_t> ids;  // sorted

  Rows(int64_t members, int64_t rows, int64_t width)
      : members(members), rows(rows), width(width), values(members * width), ids(members) {
    uint32_t state = 1;
    const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    for (float& v : values) v = float(next() % 2001) / 1000 - 1;
    for (int64_t& i : ids) i = next() % rows;
    std::sort(ids.begin(), ids.end());
  }
};

// The runs of the sorted ids through the kernel: short ones as a batch, long ones by blocks.
template <class R>
std::vector<float> by_kernel(const R& reducer, const Rows& r) {
  std::vector<float> result(r.rows * r.width, 77);
  std::vector<float> partial((r.members / kRowBlock + 2) * partial_width(r.width));
  const int64_t in_shape[] = {r.members, r.width}, out_shape[] = {r.rows, r.width};
  const int64_t stride[] = {r.width, 1};
  const Operand input{const_cast<float*>(r.values.data()), Dtype::kF32, 2, in_shape, stride};
  const Operand output{result.data(), Dtype::kF32, 2, out_shape, stride};
  const RowReductionOf<float, R> kernel(reducer, input, r.members, output, false, partial.data());
  const Columns columns{0, r.width};
  int64_t row = 0;
  for (int64_t begin = 0; begin < r.members;) {
    const int64_t id = r.ids[begin];
    int64_t end = begin;
    while (end < r.members && r.ids[end] == id) ++end;
    std::vector<int64_t> offset(end - begin + kAhead);
    for (size_t i = 0; i < offset.size(); ++i)
      offset[i] = std::min(begin + int64_t(i), r.members - 1) * r.width;
    if (end - begin <= kBatch) {
      Batch batch;
      batch.runs = 1;
      batch.end[0] = int(end - begin);
      batch.row[0] = id;
      std::copy(offset.begin(), offset.end(), batch.offset);
      std::fill_n(batch.last, batch.end[0], 0);
      batch.last[batch.end[0] - 1] = 1;
      row = kernel.write(batch, row, columns);
    } else {
      kernel.empty(row, id, columns);
      kernel.reduce_blocks(offset.data(), int(end - begin), columns, 0);
      kernel.fold(id, 0, (end - begin + kRowBlock - 1) / kRowBlock, end - begin, columns);
      row = id + 1;
    }
    begin = end;
  }
  kernel.empty(row, r.rows, columns);
  return result;
}

// The contract's order: blocks of 256 serially, then the blocks.
template <class Take, class Combine, class Finish>
std::vector<float> by_loop(const Rows& r, float empty, Take take, Combine combine, Finish finish) {
  std::vector<float> result(r.rows * r.width, empty);
  for (int64_t begin = 0, end = 0; begin < r.members; begin = end) {
    while (end < r.members && r.ids[end] == r.ids[begin]) ++end;
    for (int64_t c = 0; c < r.width; ++c) {
      float total = 0;
      for (int64_t first = begin; first < end; first += 256) {
        float block = take(r.values[first * r.width + c], first);
        for (int64_t i = first + 1; i < std::min(first + 256, end); ++i)
          block = combine(block, take(r.values[i * r.width + c], i));
        total = first == begin ? block : combine(total, block);
      }
      result[r.ids[begin] * r.width + c] = finish(total);
    }
  }
  return result;
}

int run(bool wrong) {
  int64_t differences[3] = {};
  const auto count = [](const std::vector<float>& a, const std::vector<float>& b) {
    int64_t n = 0;
    for (size_t i = 0; i < a.size(); ++i) n += std::memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return n;
  };
  const auto itself = [](float v) { return v; };
  const auto member = [](float v, int64_t) { return v; };
  for (int64_t width : {1, 3, 8, 21, 70}) {
    for (int64_t rows : {3, 40, 5000}) {
      const Rows r(3000, rows, width);
      std::vector<float> weights(r.members);
      for (int64_t i = 0; i < r.members; ++i) weights[i] = float(i % 7) / 4;
      const auto maximum = [=](float a, float b) { return wrong || b <= a ? a : b; };
      const auto product = [=](float a, float b) { return wrong ? a : a * b; };
      const auto sum = [=](float a, float b) { return wrong ? a : a + b; };
      differences[0] += count(by_kernel(TwiceTheMaximum{}, r),
                              by_loop(r, -std::numeric_limits<float>::infinity(), member, maximum,
                                      [](float v) { return v + v; }));
      differences[1] +=
          count(by_kernel(Reducer<Product>{}, r), by_loop(r, 0, member, product, itself));
      const WeightedSum weighted{{}, weights.data(), width};
      const auto times = [&](float v, int64_t i) { return v * weights[i]; };
      differences[2] += count(by_kernel(weighted, r), by_loop(r, 0, times, sum, itself));
    }
  }
  std::printf("maximum %lld\nproduct %lld\nweighted_sum %lld\n", (long long)differences[0],
              (long long)differences[1], (long long)differences[2]);
  return 0;
}

}  // namespace
}  // namespace gradplan::rows

int main(int count, char** arguments) {
  return gradplan::rows::run(count > 1 && std::strcmp(arguments[1], "wrong") == 0);
}
