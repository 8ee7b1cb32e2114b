#include "kernels/latent_heads.h"

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>  // a block works on a token
__global__ __launch_bounds__(kThreads) void forward_kernel(LatentParts<T> heads,
                                                           LatentRows<const T> rows,
                                                           LatentHeads s) {
  const std::int64_t token = blockIdx.x, width = s.width();
  const T* const turning = rows.turning + token * s.turning;
  for (std::int64_t i = threadIdx.x; i < s.heads * width; i += kThreads) {
    const std::int64_t c = i % width, head = token * s.heads + i / width, out = head * width + c;
    const T* const kv_row = rows.kv + head * s.kv_width();
    T k = T(0.0f);
    if (c < s.turning)
      k = turning[c];
    else if (c < s.q_width())
      k = kv_row[c - s.turning];
    if (heads.q != nullptr) {
      const T* const q_row = rows.q + head * s.q_width();
      heads.q[out] = c < s.turning     ? q_row[s.fixed + c]
                     : c < s.q_width() ? q_row[c - s.turning]
                                       : T(0.0f);
    }
    heads.k[out] = k;
    heads.v[out] = c < s.values ? kv_row[s.fixed + c] : T(0.0f);
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(LatentRows<T> rows,
                                                            LatentParts<const T> heads,
                                                            LatentHeads s) {
  const std::int64_t token = blockIdx.x, first = token * s.heads, width = s.width();
  for (std::int64_t i = threadIdx.x; i < s.heads * s.q_width(); i += kThreads) {
    const std::int64_t c = i % s.q_width(), head = first + i / s.q_width();
    rows.q[first * s.q_width() + i] =
        heads.q[head * width + (c < s.fixed ? s.turning + c : c - s.fixed)];
  }
  for (std::int64_t i = threadIdx.x; i < s.heads * s.kv_width(); i += kThreads) {
    const std::int64_t c = i % s.kv_width(), head = first + i / s.kv_width();
    rows.kv[first * s.kv_width() + i] =
        c < s.fixed ? heads.k[head * width + s.turning + c] : heads.v[head * width + c - s.fixed];
  }
  for (std::int64_t c = threadIdx.x; c < s.turning; c += kThreads) {
    float sum = 0;
    for (std::int64_t head = 0; head < s.heads; ++head)
      sum += static_cast<float>(heads.k[(first + head) * width + c]);
    rows.turning[token * s.turning + c] = T(sum);
  }
}

template <class T>  // a block works on a row
__global__ __launch_bounds__(kThreads) void split_kernel(T* a, T* b, const T* x, std::int64_t first,
                                                         std::int64_t second) {
  const std::int64_t row = blockIdx.x;
  const T* const from = x + row * (first + second);
  for (std::int64_t c = threadIdx.x; c < first; c += kThreads) a[row * first + c] = from[c];
  if (b == nullptr) return;
  for (std::int64_t c = threadIdx.x; c < second; c += kThreads)
    b[row * second + c] = from[first + c];
}

template <class T>
__global__ __launch_bounds__(kThreads) void merge_kernel(T* x, const T* a, const T* b,
                                                         std::int64_t first, std::int64_t second) {
  const std::int64_t row = blockIdx.x;
  T* const to = x + row * (first + second);
  for (std::int64_t c = threadIdx.x; c < first; c += kThreads) to[c] = a[row * first + c];
  for (std::int64_t c = threadIdx.x; c < second; c += kThreads)
    to[first + c] = b == nullptr ? T(0.0f) : b[row * second + c];
}

}  // namespace

template <class T>
void latent_heads_forward(const LatentParts<T>& heads, const LatentRows<const T>& rows,
                          const LatentHeads& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  forward_kernel<<<static_cast<unsigned>(s.tokens), kThreads, 0, stream>>>(heads, rows, s);
  check(cudaGetLastError());
}

template <class T>
void latent_heads_backward(const LatentRows<T>& rows, const LatentParts<const T>& heads,
                           const LatentHeads& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  backward_kernel<<<static_cast<unsigned>(s.tokens), kThreads, 0, stream>>>(rows, heads, s);
  check(cudaGetLastError());
}

template <class T>
void split_columns(T* a, T* b, const T* x, std::int64_t rows, std::int64_t first,
                   std::int64_t second, cudaStream_t stream) {
  if (rows == 0) return;
  split_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(a, b, x, first, second);
  check(cudaGetLastError());
}

template <class T>
void merge_columns(T* x, const T* a, const T* b, std::int64_t rows, std::int64_t first,
                   std::int64_t second, cudaStream_t stream) {
  if (rows == 0) return;
  merge_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, a, b, first, second);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                          \
  template void latent_heads_forward(const LatentParts<T>&, const LatentRows<const T>&,         \
                                     const LatentHeads&, cudaStream_t);                         \
  template void latent_heads_backward(const LatentRows<T>&, const LatentParts<const T>&,        \
                                      const LatentHeads&, cudaStream_t);                        \
  template void split_columns(T*, T*, const T*, std::int64_t, std::int64_t, std::int64_t,       \
                              cudaStream_t);                                                    \
  template void merge_columns(T*, const T*, const T*, std::int64_t, std::int64_t, std::int64_t, \
                              cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
