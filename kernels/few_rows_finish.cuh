// kernels/few_rows_finish.cuh: what becomes of the sums of few_rows.h, for its kernels.
#pragma once

#include "kernels/fast_math.cuh"
#include "kernels/few_rows.cuh"
#include "kernels/pack.cuh"

namespace mt::cuda::few {

__device__ inline float gelu(float z) {
  return z * sigmoid(1.5957691216057308f * z * (1 + 0.044715f * z * z));
}

// What is added to elements (i, j) and (i, other): fetched before their sums are there.
struct Added {
  float bias[2] = {}, residual[2] = {};

  template <class T, class C>
  __device__ Added(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, std::int64_t other) {
    const std::int64_t column[2] = {j, other};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (i >= p.m || column[r] >= p.n) continue;
      if (p.bias) bias[r] = to_float(p.bias[column[r]]);
      if (p.residual) residual[r] = to_float(p.residual[i * p.n + column[r]]);
    }
  }
};

// c from a sum that has its bias; of the others the residual is 0.
template <class T, class C>
__device__ float finished(const Arguments<T, C>& p, float z, float residual) {
  if (p.gelu) z = gelu(z);
  return p.residual ? z + residual : z;
}
__device__ inline float swiglu(float gate, float up) { return gate * sigmoid(gate) * up; }

// c and at from the sum z of element (i, j).
template <class T, class C>
__device__ void finish(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, float z,
                       float bias, float residual) {
  if (j >= p.n) return;
  z += bias;
  const std::int64_t place = i * p.n + j;
  if (p.at) p.at[place] = static_cast<T>(z);
  p.c[place] = static_cast<C>(finished(p, z, residual));
}
// ... of elements (i, j) and (i, n/2 + j).
template <class T, class C>
__device__ void finish_swiglu(const Arguments<T, C>& p, std::int64_t i, std::int64_t j, float gate,
                              float up, const Added& added) {
  const std::int64_t half = p.n / 2;
  if (j >= half) return;
  gate += added.bias[0];
  up += added.bias[1];
  if (p.at) {
    p.at[i * p.n + j] = static_cast<T>(gate);
    p.at[i * p.n + half + j] = static_cast<T>(up);
  }
  p.c[i * half + j] = static_cast<C>(swiglu(gate, up));
}

}  // namespace mt::cuda::few
