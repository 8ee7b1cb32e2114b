// kernels/largest_score.h: how large scores of attention are (Kimi Team: arXiv:2507.20534, section
// 2.1).
//   largest[h] = the larger of itself and of scale q_i k_j over all sequences and all pairs of
//                which query i of head h sees key j (kernels/attention.h), before a cap and without
//                a bias; what is no number is passed over
// largest: [heads] f64; q, k, first_key: as attention_forward()'s.  T: float or double; on the GPU
// float, bf16 or fp16, of at most 256 channels.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void add_largest_scores(double* largest, const T* q, const T* k, const std::int32_t* first_key,
                        const AttentionShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void add_largest_scores(double* largest, const T* q, const T* k, const std::int32_t* first_key,
                        const AttentionShape& shape, cudaStream_t stream);
}  // namespace mt::cuda
