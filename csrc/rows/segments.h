// Functions of segments by ids, for whoever makes the ids: see segment_csr.cc.
#pragma once

#include "ffi/kernel.h"

namespace gradplan::rows {
using namespace ffi;

BoundKernel bind_segment_sum(const Problem& problem, bool sorted);
BoundKernel bind_segment_sum_backward(const Problem& problem);
BoundKernel bind_segment_reduce(const Problem& problem, bool sorted);
BoundKernel bind_segment_reduce_backward(const Problem& problem);
BoundKernel bind_segment_softmax(const Problem& problem, bool sorted);
BoundKernel bind_segment_softmax_backward(const Problem& problem);

}  // namespace gradplan::rows
