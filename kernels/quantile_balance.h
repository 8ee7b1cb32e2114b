// kernels/quantile_balance.h: how routers choose experts evenly by biases that are quantiles of
// their logits (Megatron-LM's quantile_balancing).
//   keys        keys[t, e] = z[t, e] - beta[e]
//   quantiles   sums[e] += factor times the (tokens chosen / experts + 1)-th largest over t of
//               z[t, e] - alpha[t],  alpha[t] = the (chosen + 1)-th largest over e of keys[t, e]
// With that beta as many tokens have a key above alpha in each column.  tokens chosen is a multiple
// of experts, and chosen less than these.  z, keys: [tokens, experts]; beta: [experts]; sums:
// [experts] f64.  T: float or double; on the GPU float, bf16 or fp16, keys and beta f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct QuantileShape {
  std::int64_t tokens = 0, experts = 0, chosen = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void quantile_keys(T* keys, const T* z, const T* beta, const QuantileShape& shape);
template <class T>
void add_quantiles(double* sums, const T* z, const T* beta, double factor,
                   const QuantileShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void quantile_keys(float* keys, const T* z, const float* beta, const QuantileShape& shape,
                   cudaStream_t stream);
std::size_t quantiles_work(const QuantileShape& shape);  // bytes
template <class T>
void add_quantiles(double* sums, const T* z, const float* beta, double factor,
                   const QuantileShape& shape, void* work, cudaStream_t stream);
}  // namespace mt::cuda
