#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/wide_product.h"

namespace mt::cuda {
namespace {

// A block makes a tile of c, kTile to each side, and reads kDepth of the inner extent at a time;
// each of its threads has kOwn x kOwn numbers, kStep apart.
constexpr int kTile = 64, kDepth = 16, kOwn = 4, kStep = kTile / kOwn, kThreads = kStep * kStep;

// Puts a tile of x, [kDepth, kTile], into shared memory, with zeros beyond its edges.  `across` is
// its first row or column of c, `depth` of the inner extent.  Neighbouring threads read neighbours.
template <class T>
__device__ void read_tile(double (&tile)[kDepth][kTile + 1], const T* __restrict__ x,
                          bool inner_lies, std::int64_t across, std::int64_t extent,
                          std::int64_t depth, std::int64_t k) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int d = inner_lies ? i % kDepth : i / kTile, at = inner_lies ? i / kDepth : i % kTile;
    const std::int64_t row = across + at, inner = depth + d;
    float value = 0;
    if (row < extent && inner < k)
      value = to_float(x[inner_lies ? row * k + inner : inner * extent + row]);
    tile[d][at] = value;
  }
}

template <class A, class B, class C>
__global__ __launch_bounds__(kThreads) void product_kernel(const WideProduct<A, B, C> p) {
  __shared__ double a[kDepth][kTile + 1], b[kDepth][kTile + 1];
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile,
                     first_col = std::int64_t{blockIdx.y} * kTile;
  const int ours = static_cast<int>(threadIdx.x) / kStep,
            across = static_cast<int>(threadIdx.x) % kStep;
  double sums[kOwn][kOwn] = {};
  for (std::int64_t depth = 0; depth < p.k; depth += kDepth) {
    read_tile(a, p.a, !p.transpose_a, first_row, p.m, depth, p.k);
    read_tile(b, p.b, p.transpose_b, first_col, p.n, depth, p.k);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      double rows[kOwn], cols[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        rows[i] = a[d][ours + i * kStep];
        cols[i] = b[d][across + i * kStep];
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] += rows[i] * cols[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t row = first_row + ours + i * kStep, col = first_col + across + j * kStep;
      if (row >= p.m || col >= p.n) continue;
      double sum = sums[i][j];
      if (p.bias != nullptr) sum += to_float(p.bias[col]);
      C& to = p.c[row * p.n + col];
      if (p.accumulate) sum += to_float(to);
      to = static_cast<C>(sum);
    }
}

}  // namespace

template <class A, class B, class C>
void wide_product(const WideProduct<A, B, C>& p, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  const dim3 tiles(static_cast<unsigned>(ceil_div(p.m, std::int64_t{kTile})),
                   static_cast<unsigned>(ceil_div(p.n, std::int64_t{kTile})));
  product_kernel<<<tiles, kThreads, 0, stream>>>(p);
  check(cudaGetLastError());
}

#define INSTANTIATE(A, B, C) template void wide_product(const WideProduct<A, B, C>&, cudaStream_t)
INSTANTIATE(float, float, float);
INSTANTIATE(bf16, bf16, float);
INSTANTIATE(float, bf16, bf16);
INSTANTIATE(float, bf16, float);
INSTANTIATE(fp16, fp16, float);
INSTANTIATE(float, fp16, fp16);
INSTANTIATE(float, fp16, float);

}  // namespace mt::cuda
