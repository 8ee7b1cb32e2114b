// kernels/fast_math.cuh: exponentials and the normal distribution in few instructions.
#pragma once

#include "kernels/normal_cdf.h"

namespace mt::cuda {

// 2^x to 2 units in the last place; 0 below the normal numbers.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// e^x; relative error |x| 1e-7.
__device__ inline float exp_approx(float x) { return exp2_approx(x * 1.44269504088896340736f); }
// 1 / (1 + e^-x); absolute error 2e-7.
__device__ inline float sigmoid(float x) { return __fdividef(1, 1 + exp_approx(-x)); }
__device__ inline float normal_cdf(float x) {
  constexpr NormalCdf kFit;
  if (!(fabsf(x) < kFit.bound)) return x > 0;
  const float t = x * x;
  float p = kFit.p[0], q = kFit.q[0];
#pragma unroll
  for (int i = 1; i < 6; ++i) p = p * t + kFit.p[i], q = q * t + kFit.q[i];
  return 0.5f + x * __fdividef(p, q);
}

// x sigmoid(x): what x is multiplied by, and the derivative of the product, s being the former.
struct Silu {
  __device__ static float gate(float x) { return sigmoid(x); }
  __device__ static float slope(float x, float s) { return s * (1 + x * (1 - s)); }
};

}  // namespace mt::cuda
