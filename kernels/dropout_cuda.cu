#include "kernels/cuda_check.h"
#include "kernels/dropout.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 128;
// A thread's packs, kThreads apart.  Where no residual is read besides, two are on their way while
// numbers are drawn.
template <bool kResidual>
inline constexpr int kPacks = kResidual ? 1 : 2;

// Index: wide enough to count the packs; 32 bits divide faster.
template <int N, bool kResidual, bool kBias, class Index, class T>
__global__ __launch_bounds__(kThreads) void bias_dropout_add_kernel(
    T* y, const T* residual, const T* x, const T* bias, Index packs, Index packs_per_row,
    DropoutMask<Index> mask, Divisor<Index> by_packs_per_row) {
  const std::uint32_t first_sample = mask.first_sample();
  constexpr int kOwn = kPacks<kResidual>;
  const Index begin = Index{blockIdx.x} * (kOwn * kThreads) + threadIdx.x;
  Pack<T, N> in[kOwn], past[kOwn];
#pragma unroll
  for (int p = 0; p < kOwn; ++p) {
    const Index pack = begin + p * kThreads;
    if (pack >= packs) continue;
    in[p] = load<N>(x + static_cast<std::int64_t>(pack) * N);
    if constexpr (kResidual) past[p] = load<N>(residual + static_cast<std::int64_t>(pack) * N);
  }
#pragma unroll
  for (int p = 0; p < kOwn; ++p) {
    const Index pack = begin + p * kThreads;
    if (pack >= packs) return;
    const Index row = by_packs_per_row(pack), first = (pack - row * packs_per_row) * N;
    float factor[N], out[N];
    mask(factor, row, first, first_sample);
#pragma unroll
    for (int n = 0; n < N; ++n) out[n] = in[p][n];
    if constexpr (kBias) {
      const auto b = load<N>(bias + first);
#pragma unroll
      for (int n = 0; n < N; ++n) out[n] += b[n];
    }
#pragma unroll
    for (int n = 0; n < N; ++n) out[n] = (kResidual ? past[p][n] : 0) + factor[n] * out[n];
    store(y + static_cast<std::int64_t>(pack) * N, out);
  }
}

template <bool kResidual, bool kBias, class T>
void launch(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
            std::int64_t cols, const Dropout& dropout, cudaStream_t stream) {
  if (rows * cols == 0) return;
  const bool wide =
      aligned(y, residual, x, bias) && cols % kWide<T> == 0 && dropout.first_channel % 4 == 0;
  with_width<kWide<T>>(wide, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    constexpr int kOfBlock = kPacks<kResidual> * kThreads;
    const auto blocks = static_cast<unsigned>(ceil_div(packs, kOfBlock));
    const bool narrow = blocks <= 0xffffffffu / kOfBlock && dropout.seq_length <= 0xffffffff;
    with_index(narrow, [&]<class Index>() {
      const auto packs_per_row = static_cast<Index>(cols / N);
      bias_dropout_add_kernel<N, kResidual, kBias><<<blocks, kThreads, 0, stream>>>(
          y, residual, x, bias, static_cast<Index>(packs), packs_per_row,
          DropoutMask<Index>(dropout), Divisor<Index>(packs_per_row));
    });
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
