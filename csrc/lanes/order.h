// The lengths of the contract's orders (docs/numerics.md); tools/contract.py writes the numbers.
#pragma once

#include <cstdint>

namespace gradplan {

constexpr int kLanes = 16;       // serial chains of a row reduction; the width of every vector
constexpr int64_t kGroup = 16;   // a scan: 16 groups are a block,
constexpr int64_t kBlock = 256;  // 16 blocks a chunk; sums of rows: the members of a block
constexpr int64_t kChunk = 4096;

}  // namespace gradplan
