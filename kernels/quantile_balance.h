// kernels/quantile_balance.h: how routers choose experts evenly by biases that are quantiles of
// their logits (Megatron-LM's quantile_balancing), on the CPU alone.
//   keys        keys[t, e] = z[t, e] - beta[e]
//   quantiles   sums[e] += factor times the (tokens chosen / experts + 1)-th largest over t of
//               z[t, e] - alpha[t],  alpha[t] = the (chosen + 1)-th largest over e of keys[t, e]
// With that beta as many tokens have a key above alpha in each column.  tokens chosen is a multiple
// of experts, and chosen less than these.  z, keys: [tokens, experts]; beta: [experts]; sums:
// [experts] f64.  T: float or double.
#pragma once

#include <cstdint>

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
