#include "kernels/cuda_check.h"
#include "kernels/dropout.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// Index: wide enough to count the packs; 32 bits divide in a third of the time.
template <int N, bool kResidual, bool kBias, class Index, class T>
__global__ __launch_bounds__(kThreads) void bias_dropout_add_kernel(T* y, const T* residual,
                                                                    const T* x, const T* bias,
                                                                    Index packs,
                                                                    Index packs_per_row,
                                                                    DropoutMask<Index> mask) {
  const Index pack = Index{blockIdx.x} * kThreads + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t i = static_cast<std::int64_t>(pack) * N;
  const auto in = load<N>(x + i);
  float sum[N] = {}, out[N], factor[N];
  if constexpr (kResidual) {
    const auto r = load<N>(residual + i);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] = r[n];
  }
  const Index row = pack / packs_per_row, first = (pack - row * packs_per_row) * N;
  mask(factor, row, first);
#pragma unroll
  for (int n = 0; n < N; ++n) out[n] = in[n];
  if constexpr (kBias) {
    const auto b = load<N>(bias + first);
#pragma unroll
    for (int n = 0; n < N; ++n) out[n] += b[n];
  }
#pragma unroll
  for (int n = 0; n < N; ++n) out[n] = sum[n] + factor[n] * out[n];
  store(y + i, out);
}

template <bool kResidual, bool kBias, class T>
void launch(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
            std::int64_t cols, const Dropout& dropout, cudaStream_t stream) {
  if (rows * cols == 0) return;
  const bool wide = aligned(y, residual, x, bias) && cols % kWide<T> == 0;
  with_width<kWide<T>>(wide, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    const auto blocks = static_cast<unsigned>(ceil_div(packs, kThreads));
    const auto run = [&]<class Index>(Index) {
      bias_dropout_add_kernel<N, kResidual, kBias><<<blocks, kThreads, 0, stream>>>(
          y, residual, x, bias, static_cast<Index>(packs), static_cast<Index>(cols / N),
          DropoutMask<Index>(dropout));
    };
    if (blocks <= 0xffffffffu / kThreads && dropout.seq_length <= 0xffffffff)
      run(std::uint32_t{});
    else
      run(std::uint64_t{});
  });
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void bias_dropout_add(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
                      std::int64_t cols, const Dropout& dropout, cudaStream_t stream) {
  const auto chosen = residual ? bias ? launch<true, true, T> : launch<true, false, T>
                      : bias ? launch<false, true, T>
                               : launch<false, false, T>;
  chosen(y, residual, x, bias, rows, cols, dropout, stream);
}

template <class T>
void dropout_backward(T* dx, const T* dy, std::int64_t rows, std::int64_t cols,
                      const Dropout& dropout, cudaStream_t stream) {
  launch<false, false, T>(dx, nullptr, dy, nullptr, rows, cols, dropout, stream);
}

#define INSTANTIATE(T)                                                                         \
  template void bias_dropout_add(T*, const T*, const T*, const T*, std::int64_t, std::int64_t, \
                                 const Dropout&, cudaStream_t);                                \
  template void dropout_backward(T*, const T*, std::int64_t, std::int64_t, const Dropout&,     \
                                 cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
