// kernels/fast_math.cuh: exponentials of few instructions.
#pragma once

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

}  // namespace mt::cuda
