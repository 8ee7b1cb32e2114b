// kernels/expert_capacity.h: experts with room for so many tokens (Fedus et al.: arXiv:2101.03961,
// section 2.2).
//   kept[t, j] = expert[t, j] if that is among the `capacity` tokens that its expert keeps, else -1
// which are those of largest weight[t, j], of equal ones the first, or, where weight is null, the
// first.
//   sum[0] += how many of kept are -1
// expert, kept: [tokens, chosen] i32; weight, none below 0, in the type of sums; sum: [1] f64.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct CapacityShape {
  std::int64_t tokens = 0, chosen = 0, experts = 0, capacity = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void keep_tokens(std::int32_t* kept, const std::int32_t* expert, const T* weight,
                 const CapacityShape& shape);
void add_dropped(double* sum, const std::int32_t* kept, std::int64_t count);
}  // namespace mt::cpu

namespace mt::cuda {
void keep_tokens(std::int32_t* kept, const std::int32_t* expert, const float* weight,
                 const CapacityShape& shape, cudaStream_t stream);
void add_dropped(double* sum, const std::int32_t* kept, std::int64_t count, cudaStream_t stream);
}  // namespace mt::cuda
