// kernels/delta_rule.h: the gated delta rule (Yang, Kautz, Hatamizadeh: arXiv:2412.06464, eq. 10),
// of each value head by itself, token by token.
//   q^ = q / sqrt(|q|^2 + 1e-6) / sqrt(key_dim)            k^ = k / sqrt(|k|^2 + 1e-6)
//   a = e^g,  g = -e^A_log log(1 + e^(alpha + dt_bias))    b = sigmoid(beta)
//   S'[t] = a S[t - 1]                                     d[t] = b (v[t] - S'[t]^T k^)
//   S[t] = S'[t] + k^ d[t]^T                               y[t] = S[t]^T q^
// with S[t - 1] zero where a document begins;  S: [key_dim, value_dim].  Backward, from the last
// token to the first, with dS what the tokens behind have of S[t]:
//   dS += q^ dy^T           dq^ = S dy                     dd = dS^T k^
//   dv = b dd               db = dd (v - S'^T k^)
//   dS' = dS - b k^ dd^T    dk^ = dS d - b S' dd           dg = <dS', S'>
//   dS[t - 1] = a dS'
//   d_alpha = -dg e^A_log sigmoid(alpha + dt_bias)         d_beta = db b (1 - b)
//   d_dt_bias += sum_t d_alpha                             dA_log += sum_t dg g
// dq and dk are sums over a key head's value heads; of n = x / sqrt(|x|^2 + e) it is
//   dx = (dn - n <n, dn>) / sqrt(|x|^2 + e).
// q, k, v are the parts of `mixed`, their gradients those of d_mixed, [tokens, shape.mixed()];
// beta, alpha are the end of `projected`, their gradients that of d_projected, of which nothing
// else is written;  y, dy: [tokens, values];  dt_bias, A_log and their gradients: [value_heads];
// first_key: [tokens] i32, where each token's document begins in its sequence, or null.  T: float
// or double; gradients of what heads have are added up in f64.  On the GPU float, bf16 or fp16, of
// heads of at most kMostDeltaDim channels; states and sums are f32, gradients of what heads have
// are f32, or bf16 if T is, and are added up over parts of the tokens that depend on the shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/delta_shape.h"
#include "kernels/mamba_shape.h"

namespace mt {

inline constexpr double kDeltaEps = 1e-6;

// DeltaStates: what the rule begins with, and where it puts what it ends with: null, or states in
// the slots of a cache, [slots, value_heads, key_dim, value_dim].
template <class T>
struct DeltaStates {
  T* cache = nullptr;
  CacheSlots slots = {};
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void delta_rule_forward(T* y, const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                        const std::int32_t* first_key, const DeltaStates<T>& states,
                        const DeltaShape& shape);
// Goes back over a rule that had no states before.
template <class T>
void delta_rule_backward(T* d_mixed, T* d_projected, T* d_dt_bias, T* d_a_log, const T* dy,
                         const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                         const std::int32_t* first_key, const DeltaShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void delta_rule_forward(T* y, const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                        const std::int32_t* first_key, const DeltaStates<float>& states,
                        const DeltaShape& shape, cudaStream_t stream);
std::size_t delta_rule_backward_work(const DeltaShape& shape);
template <class T, class G>
void delta_rule_backward(T* d_mixed, T* d_projected, G* d_dt_bias, G* d_a_log, const T* dy,
                         const T* mixed, const T* projected, const T* dt_bias, const T* a_log,
                         const std::int32_t* first_key, const DeltaShape& shape, void* work,
                         cudaStream_t stream);
}  // namespace mt::cuda
