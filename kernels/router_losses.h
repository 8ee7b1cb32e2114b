// kernels/router_losses.h: what is added to an objective so that routers choose all experts as
// often (Fedus, Zoph, Shazeer: arXiv:2101.03961, eq. 4-6), and so that logits stay small (Zoph et
// al.: arXiv:2202.08906, eq. 5).  Rows belong to groups, all or those of a sequence; row r to group
// (first + r) / group_rows.  S are the softmax of a row's logits z, or its experts' own scores
// (kernels/experts.h) over their sum:
//   count      counts[g, e] = how many of a group's chosen experts are e
//   forward    balance[r] = sum_e counts[g, e] S[r, e]      square[r] = logsumexp(z[r])^2
//   sums       sums[0] += by_balance sum_r balance[r]     sums[1] += by_square sum_r square[r]
//              sums[2 + e] += sum_g counts[g, e]
//   backward   dz[r] += by_balance d balance[r] / dz + by_square d square[r] / dz
//   mean       so_far[e] += counts[e];  counts[e] = so_far[e] sum(counts) / sum(so_far), which is
//              the mean of what came so far, where each time as many were chosen
// Both factors are there multiplied by *scale and *weight, if they are given.  expert: [rows,
// chosen] i32; counts in the type of sums; balance, square, sums, so_far, scale f64.  T: float or
// double; on the GPU float, bf16 or fp16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/experts.h"

namespace mt {
struct RouterGroups {
  std::int64_t rows = 0, experts = 0, chosen = 0;
  std::int64_t groups = 1, group_rows = 1, first = 0;
  bool sigmoid = false, sqrt_softplus = false;  // S are of experts' own scores, and of which
  constexpr RouterScores scores() const {
    return sigmoid         ? RouterScores::sigmoid
           : sqrt_softplus ? RouterScores::sqrt_softplus
                           : RouterScores::softmax_of_all;
  }
};
struct RouterFactors {
  double by_balance = 0, by_square = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void count_experts(T* counts, const std::int32_t* expert, const RouterGroups& groups);
template <class T>
void router_losses(double* balance, double* square, const T* logits, const T* counts,
                   const RouterGroups& groups);
template <class T>
void add_router_sums(double* sums, const double* balance, const double* square, const T* counts,
                     const RouterFactors& factors, const RouterGroups& groups);
template <class T>
void router_losses_backward(T* d_logits, const T* logits, const T* counts,
                            const RouterFactors& factors, const double* scale, const double* weight,
                            const RouterGroups& groups);
template <class T>
void mean_counts(T* counts, double* so_far, std::int64_t experts);
}  // namespace mt::cpu

namespace mt::cuda {
void count_experts(float* counts, const std::int32_t* expert, const RouterGroups& groups,
                   cudaStream_t stream);
template <class T>
void router_losses(double* balance, double* square, const T* logits, const float* counts,
                   const RouterGroups& groups, cudaStream_t stream);
void add_router_sums(double* sums, const double* balance, const double* square, const float* counts,
                     const RouterFactors& factors, const RouterGroups& groups, cudaStream_t stream);
template <class T>
void router_losses_backward(T* d_logits, const T* logits, const float* counts,
                            const RouterFactors& factors, const double* scale, const double* weight,
                            const RouterGroups& groups, cudaStream_t stream);
void mean_counts(float* counts, double* so_far, std::int64_t experts, cudaStream_t stream);
}  // namespace mt::cuda
