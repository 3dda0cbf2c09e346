#include "memory/dimensions.h"

#include <algorithm>
#include <cstdlib>

namespace gradplan::memory {

void Dimensions::arrange(int output) {
  const int rank = int(extent.size());
  std::vector<int> order(rank);
  for (int i = 0; i < rank; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::abs(stride[a][output]) > std::abs(stride[b][output]);
  });
  Dimensions merged;
  for (int i : order) {
    bool joins = !merged.extent.empty();
    for (int k = 0; joins && k < kMostOperands; ++k)
      joins = merged.stride.back()[k] == stride[i][k] * extent[i];
    if (joins) {
      merged.extent.back() *= extent[i];
      merged.stride.back() = stride[i];
    } else {
      merged.extent.push_back(extent[i]);
      merged.stride.push_back(stride[i]);
    }
  }
  *this = std::move(merged);
}

}  // namespace gradplan::memory
