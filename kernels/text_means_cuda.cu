#include "kernels/reduce.cuh"
#include "kernels/text_means.h"

namespace mt::cuda {
namespace {

constexpr int kColumns = 64, kRowsAtOnce = 16;  // of a block

// A block a text and some columns; each thread adds up every kRowsAtOnce-th row of two columns.
template <class T>
__global__ __launch_bounds__(kColumns / 2 * kRowsAtOnce) void means_kernel(float* __restrict__ mean,
                                                                           const T* __restrict__ x,
                                                                           TextSpans spans,
                                                                           std::int64_t cols) {
  __shared__ double shared[kRowsAtOnce][kColumns];
  const std::int64_t text = blockIdx.x, begin = blockIdx.y * std::int64_t{kColumns},
                     rows = spans.count[text];
  const int column = 2 * static_cast<int>(threadIdx.x), part = static_cast<int>(threadIdx.y);
  const bool first = begin + column < cols, second = begin + column + 1 < cols;
  const T* row = x + (spans.first[text] + part) * cols + begin + column;
  double sum[2] = {};
  for (std::int64_t i = part; i < rows; i += kRowsAtOnce, row += kRowsAtOnce * cols) {
    if (first) sum[0] += static_cast<double>(to_float(row[0]));
    if (second) sum[1] += static_cast<double>(to_float(row[1]));
  }
  shared[part][column] = sum[0];
  shared[part][column + 1] = sum[1];
  __syncthreads();
  const int own = part * (kColumns / 2) + static_cast<int>(threadIdx.x);
  if (own >= kColumns || begin + own >= cols) return;
  double total = 0;
  for (int p = 0; p < kRowsAtOnce; ++p) total += shared[p][own];
  mean[text * cols + begin + own] =
      rows == 0 ? 0.0f : static_cast<float>(total / static_cast<double>(rows));
}

}  // namespace

template <class T>
void text_means(float* mean, const T* x, const TextSpans& spans, std::int64_t cols,
                cudaStream_t stream) {
  if (spans.texts == 0) return;
  const dim3 blocks(static_cast<unsigned>(spans.texts),
                    static_cast<unsigned>((cols + kColumns - 1) / kColumns));
  means_kernel<<<blocks, dim3(kColumns / 2, kRowsAtOnce), 0, stream>>>(mean, x, spans, cols);
  check(cudaGetLastError());
}

#define INSTANTIATE(T) \
  template void text_means(float*, const T*, const TextSpans&, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
