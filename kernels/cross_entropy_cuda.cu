#include "kernels/cross_entropy.h"

#include "kernels/fast_math.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 512;

// Part of a row: its largest element, and sum exp(x - top) (Milakov, Gimelshein: arXiv:1805.02867).
struct Softmax {
  float top, sum;
};
struct Join {
  __device__ Softmax operator()(Softmax a, Softmax b) const {
    const float top = fmaxf(a.top, b.top);
    if (top == -INFINITY) return {top, 0};
    return {top, a.sum * exp_approx(a.top - top) + b.sum * exp_approx(b.top - top)};
  }
};

__device__ Softmax over_block(Softmax x, Softmax* shared) {
  const Join join;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int distance = 16; distance > 0; distance /= 2)
    x = join(x, {__shfl_xor_sync(0xffffffff, x.top, distance),
                 __shfl_xor_sync(0xffffffff, x.sum, distance)});
  if (threadIdx.x % 32 == 0) shared[warp] = x;
  __syncthreads();
  x = shared[0];
  for (int w = 1; w < kThreads / 32; ++w) x = join(x, shared[w]);
  return x;
}

struct Problem {
  const std::int32_t* labels;
  const float* row_weight;
  float* loss;
  std::int64_t vocab;
  float smoothing;  // t of target[c] = (1 - t) [c = label] + t / vocab
};

// One block a row, which it reads twice.
template <int N, bool kSmooth, class T>
__global__ __launch_bounds__(kThreads) void cross_entropy_kernel(T* logits, Problem p) {
  constexpr int kUnroll = 4;
  constexpr std::int64_t kStep = std::int64_t{kThreads} * N;
  __shared__ Softmax shared[kThreads / 32];
  __shared__ float shared_sum[kThreads / 32];
  T* row = logits + blockIdx.x * p.vocab;
  const std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * N;

  Softmax all{-INFINITY, 0};
  float plain = 0;  // sum of the logits
  for (std::int64_t first = begin; first < p.vocab; first += kUnroll * kStep) {
    Pack<T, N> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * kStep < p.vocab) packs[u] = load<N>(row + first + u * kStep);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * kStep >= p.vocab) continue;
      float top = all.top;
#pragma unroll
      for (int n = 0; n < N; ++n) top = fmaxf(top, packs[u][n]);
      if (top == -INFINITY) continue;
      float sum = all.sum * exp_approx(all.top - top);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        sum += exp_approx(packs[u][n] - top);
        if constexpr (kSmooth) plain += packs[u][n];
      }
      all = {top, sum};
    }
  }
  all = over_block(all, shared);
  const std::int64_t label = p.labels[blockIdx.x];
  const float of_label = to_float(row[label]);
  const float mean = kSmooth ? cuda::over_block(plain, shared_sum) / float(p.vocab) : of_label;
  if (threadIdx.x == 0)
    p.loss[blockIdx.x] = logf(all.sum) + (all.top - of_label) + p.smoothing * (of_label - mean);
  if (!p.row_weight) return;
  __syncthreads();  // the label's logit has been read

  const float weight = p.row_weight[blockIdx.x], factor = weight / all.sum;
  const float everywhere = weight * p.smoothing / float(p.vocab);
  const float at_label = weight * (1 - p.smoothing);
  for (std::int64_t first = begin; first < p.vocab; first += kUnroll * kStep) {
    Pack<T, N> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * kStep < p.vocab) packs[u] = load<N>(row + first + u * kStep);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t c = first + u * kStep;
      if (c >= p.vocab) continue;
      float gradient[N];
#pragma unroll
      for (int n = 0; n < N; ++n)
        gradient[n] = exp_approx(packs[u][n] - all.top) * factor - everywhere;
      if (c <= label && label < c + N) {
#pragma unroll
        for (int n = 0; n < N; ++n)
          if (c + n == label) gradient[n] -= at_label;
      }
      store(row + c, gradient);
    }
  }
}

}  // namespace

template <class T>
void cross_entropy(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                   std::int64_t rows, std::int64_t vocab, double smoothing, cudaStream_t stream) {
  if (rows == 0) return;
  const bool smooth = smoothing > 0 && vocab > 1;
  const auto n = static_cast<double>(vocab);
  const Problem p{labels, row_weight, loss, vocab,
                  smooth ? static_cast<float>(smoothing * n / (n - 1)) : 0};
  with_width<kWide<T>>(aligned(logits) && vocab % kWide<T> == 0, [&]<int N>() {
    const auto kernel =
        smooth ? cross_entropy_kernel<N, true, T> : cross_entropy_kernel<N, false, T>;
    kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, p);
  });
  check(cudaGetLastError());
}

template void cross_entropy(float*, float*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t, double, cudaStream_t);
template void cross_entropy(float*, bf16*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t, double, cudaStream_t);
template void cross_entropy(float*, fp16*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t, double, cudaStream_t);

}  // namespace mt::cuda
