#include "kernels/cuda_check.h"
#include "kernels/head_shares.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// A column of a token's row a thread; tokens are the other dimension of the grid.
template <class T>
__global__ __launch_bounds__(kThreads) void split_kernel(T* __restrict__ shares,
                                                         const T* __restrict__ projected,
                                                         HeadShares of) {
  const std::int64_t cols = of.part().projected(), width = of.ranks * cols,
                     i = blockIdx.y * std::int64_t{kThreads} + threadIdx.x;
  const std::int64_t token = blockIdx.x;
  if (i < width)
    shares[token * width + i] =
        projected[token * of.whole.projected() + of.place(i / cols, i % cols)];
}

template <class T>
__global__ __launch_bounds__(kThreads) void merge_kernel(T* __restrict__ d_projected,
                                                         const T* __restrict__ d_shares,
                                                         HeadShares of) {
  const std::int64_t cols = of.part().projected(), all = of.whole.projected(),
                     j = of.whole.mixed_of_projected() + blockIdx.y * std::int64_t{kThreads} +
                         threadIdx.x;
  const std::int64_t token = blockIdx.x;
  if (j >= all) return;
  const HeadShares::Holders in = of.holders(j);
  float sum = 0;
  for (std::int64_t rank = in.first; rank < in.first + in.count; ++rank)
    sum += to_float(d_shares[(token * of.ranks + rank) * cols + in.c]);
  d_projected[token * all + j] = static_cast<T>(sum);
}

dim3 grid(std::int64_t tokens, std::int64_t columns) {
  return {static_cast<unsigned>(tokens),
          static_cast<unsigned>(ceil_div(columns, std::int64_t{kThreads}))};
}

}  // namespace

template <class T>
void split_heads(T* shares, const T* projected, const HeadShares& of, cudaStream_t stream) {
  if (of.whole.tokens() == 0) return;
  split_kernel<<<grid(of.whole.tokens(), of.ranks * of.part().projected()), kThreads, 0, stream>>>(
      shares, projected, of);
  check(cudaGetLastError());
}

template <class T>
void merge_heads(T* d_projected, const T* d_shares, const HeadShares& of, cudaStream_t stream) {
  if (of.whole.tokens() == 0) return;
  merge_kernel<<<grid(of.whole.tokens(), of.whole.projected()), kThreads, 0, stream>>>(
      d_projected, d_shares, of);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                      \
  template void split_heads(T*, const T*, const HeadShares&, cudaStream_t); \
  template void merge_heads(T*, const T*, const HeadShares&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
