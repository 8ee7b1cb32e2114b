// kernels/reduce.cuh: sums over a block's threads, and over parts that blocks left in memory; the
// order is fixed.
#pragma once

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Over `width` neighbouring lanes, a power of two; every lane gets the result.
template <class T, class Combine = Sum>
__device__ T over_lanes(T x, int width = 32, Combine combine = {}) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    if (distance < width) x = combine(x, __shfl_xor_sync(0xffffffff, x, distance));
  return x;
}

// Over a block whose size is a multiple of 32; every thread gets the result.  `shared` has a place
// for each warp, and is free again after the block's next barrier.
template <class T, class Combine = Sum>
__device__ T over_block(T x, T* shared, Combine combine = {}) {
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  x = over_lanes(x, 32, combine);
  if (warps == 1) return x;
  if (threadIdx.x % 32 == 0) shared[warp] = x;
  __syncthreads();
  x = shared[0];
  for (int w = 1; w < warps; ++w) x = combine(x, shared[w]);
  return x;
}

// y[c] += sum over parts of part[p, c];  part: [parts, cols] f32.  With y2 the same again for the
// columns behind: part is [parts, 2 cols].  G: float or bf16, to which what is there and the sum
// are rounded together.
template <class G>
void add_parts(G* y, G* y2, const float* part, std::int64_t parts, std::int64_t cols,
               cudaStream_t stream);

}  // namespace mt::cuda
