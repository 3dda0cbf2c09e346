// Summaries of the pieces that long rows are cut into.
#pragma once

#include "scan/sweep.h"

namespace gradplan::scan {

// Arrays of `ids` values, each padded so that 16 lanes can be loaded at its end.
template <class C>
struct PieceArrays {
  static constexpr int64_t padded(int64_t ids) { return (ids + kLanes) / kLanes * kLanes + kLanes; }
  static int64_t bytes(int64_t ids, int count) { return padded(ids) * count * int64_t(sizeof(C)); }
  static C* at(char* workspace, int64_t ids, int index) {
    return reinterpret_cast<C*>(workspace) + padded(ids) * index;
  }
};

// Pieces that two sweeps go over before the next ones: they stay in the cache between the two.
inline int64_t span_pieces(const Cut& cut, int64_t bytes_per_position) {
  const int64_t bytes = 4 << 20;
  return std::max<int64_t>(1, bytes / (cut.rows * cut.piece * bytes_per_position));
}

template <class V>
GP_INLINE void store_used(const V& v, ElementOf<V>* to, int lanes) {
  alignas(64) ElementOf<V> buffer[kLanes];
  v.store(buffer);
  std::copy(buffer, buffer + lanes, to);
}

}  // namespace gradplan::scan
