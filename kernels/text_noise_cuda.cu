#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/text_noise.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>  // one block a row, four channels a thread
__global__ __launch_bounds__(kThreads) void add_text_noise_kernel(T* y,
                                                                  const std::int32_t* first_key,
                                                                  std::int64_t cols,
                                                                  TextNoise noise) {
  __shared__ float size;
  const std::int64_t i = noise.first_row + blockIdx.x, position = i % noise.seq_length;
  if (threadIdx.x == 0) {
    const std::int64_t length = text_length(noise, first_key, i);
    size = static_cast<float>(noise.alpha / sqrt(static_cast<double>(length * cols)));
  }
  __syncthreads();
  const auto sample = static_cast<std::uint32_t>(noise.record->first_sample + i / noise.seq_length);
  T* row = y + blockIdx.x * cols;
  for (std::int64_t four = threadIdx.x; 4 * four < cols; four += kThreads) {
    const Counter words =
        philox({static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(position), 1, sample},
               noise.key);
    for (int n = 0; n < 4 && 4 * four + n < cols; ++n) {
      const auto u = static_cast<float>(2 * to_unit(words[n]) - 1);
      row[4 * four + n] = static_cast<T>(to_float(row[4 * four + n]) + size * u);
    }
  }
}

}  // namespace

template <class T>
void add_text_noise(T* y, const std::int32_t* first_key, std::int64_t rows, std::int64_t cols,
                    const TextNoise& noise, cudaStream_t stream) {
  if (rows == 0) return;
  add_text_noise_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(y, first_key, cols,
                                                                              noise);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                              \
  template void add_text_noise(T*, const std::int32_t*, std::int64_t, std::int64_t, \
                               const TextNoise&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
