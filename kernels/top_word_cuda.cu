#include "kernels/gpu.h"
#include "kernels/reduce.cuh"
#include "kernels/top_word.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

struct Top {
  float logit, column;
};
struct Larger {
  __device__ Top operator()(const Top& a, const Top& b) const {
    return b.logit > a.logit || (b.logit == a.logit && b.column < a.column) ? b : a;
  }
};

template <class X>  // one block a row
__global__ __launch_bounds__(kThreads) void top_words_kernel(float* tops, const X* logits,
                                                             VocabularyPart part,
                                                             std::int64_t words) {
  __shared__ Top shared[kThreads / 32];
  const X* row = logits + blockIdx.x * part.cols;
  Top top{-INFINITY, static_cast<float>(part.first)};
  for (std::int64_t c = threadIdx.x; c < words; c += kThreads) {
    const float logit = to_float(row[c]);
    if (logit > top.logit) top = {logit, static_cast<float>(part.first + c)};
  }
  const Larger larger;
  for (int distance = 16; distance > 0; distance /= 2)
    top = larger(top, {__shfl_xor_sync(0xffffffff, top.logit, distance),
                       __shfl_xor_sync(0xffffffff, top.column, distance)});
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = top;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) top = larger(top, shared[warp]);
  tops[blockIdx.x] = top.logit;
  tops[part.rows + blockIdx.x] = top.column;
}

__global__ __launch_bounds__(kThreads) void hits_kernel(float* hit, const float* tops,
                                                        const std::int32_t* labels,
                                                        VocabularyPart part) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r >= part.rows) return;
  Top top{tops[r], tops[part.rows + r]};
  for (int rank = 1; rank < part.ranks; ++rank) {
    const float* of_rank = tops + std::int64_t{rank} * 2 * part.rows;
    if (of_rank[r] > top.logit) top = {of_rank[r], of_rank[part.rows + r]};
  }
  hit[r] = top.column == static_cast<float>(labels[r]) ? 1 : 0;
}

}  // namespace

template <class X>
void top_words(float* tops, const X* logits, const VocabularyPart& part, cudaStream_t stream) {
  if (part.rows == 0) return;
  top_words_kernel<<<static_cast<unsigned>(part.rows), kThreads, 0, stream>>>(tops, logits, part,
                                                                              part.words());
  check(cudaGetLastError());
}

void top_word_hits(float* hit, const float* tops, const std::int32_t* labels,
                   const VocabularyPart& part, cudaStream_t stream) {
  if (part.rows == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(part.rows, std::int64_t{kThreads}));
  hits_kernel<<<blocks, kThreads, 0, stream>>>(hit, tops, labels, part);
  check(cudaGetLastError());
}

#define INSTANTIATE(X) \
  template void top_words(float*, const X*, const VocabularyPart&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
