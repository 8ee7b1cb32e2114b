#include "kernels/gpu.h"
#include "kernels/reduce.cuh"
#include "kernels/retrieval_loss.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// One block a row, which it reads three times.
__global__ __launch_bounds__(kThreads) void loss_kernel(float* loss, float* hit, float* s,
                                                        const float* w, RetrievalShape shape,
                                                        RetrievalTops tops) {
  __shared__ float of_largest[kThreads / 32], of_sum[kThreads / 32];
  __shared__ int of_before[kThreads / 32];
  const std::int64_t i = blockIdx.x, at = i * shape.each, cols = shape.n * shape.each;
  float* const row = s + i * cols;
  const float own = row[at];
  float largest = -INFINITY;
  int before = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += kThreads) {
    largest = fmaxf(largest, row[j]);
    before += !(own > row[j] || (own == row[j] && at <= j));  // so is a NaN
  }
  largest = over_block(largest, of_largest, Larger{});
  before = over_block(before, of_before);
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += kThreads) sum += expf(row[j] - largest);
  sum = over_block(sum, of_sum);
  const float lse = largest + logf(sum);
  if (threadIdx.x == 0) loss[i] = lse - own;
  if (static_cast<int>(threadIdx.x) < tops.count)
    hit[threadIdx.x * shape.n + i] = own == own && before < tops.top[threadIdx.x] ? 100.0f : 0.0f;
  if (w == nullptr) return;
  // Every thread has read `own` by now: over_block() is a barrier.
  for (std::int64_t j = threadIdx.x; j < cols; j += kThreads)
    row[j] = w[i] * (expf(row[j] - lse) - (j == at ? 1.0f : 0.0f));
}

}  // namespace

void retrieval_loss(float* loss, float* hit, float* s, const float* w, const RetrievalShape& shape,
                    const RetrievalTops& tops, cudaStream_t stream) {
  if (shape.n == 0) return;
  loss_kernel<<<static_cast<unsigned>(shape.n), kThreads, 0, stream>>>(loss, hit, s, w, shape,
                                                                       tops);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
