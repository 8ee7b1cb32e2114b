#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/past_states.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>  // a block works on a token
__global__ __launch_bounds__(kThreads) void keep_kernel(T* states, const T* x,
                                                        const std::int32_t* positions,
                                                        const std::int32_t* slots,
                                                        PastStatesShape s) {
  const std::int64_t token = blockIdx.x;
  T* const to = states + s.place(slots, token, positions[token]) * s.cols;
  for (std::int64_t c = threadIdx.x; c < s.cols; c += kThreads) to[c] = x[token * s.cols + c];
}

template <class T>
__global__ __launch_bounds__(kThreads) void before_kernel(T* x, std::int32_t* first,
                                                          const T* states,
                                                          const std::int32_t* positions,
                                                          const std::int32_t* slots,
                                                          std::int32_t least, PastStatesShape s) {
  const std::int64_t token = blockIdx.x;
  const std::int32_t position = positions[token];
  const T* const from = states + s.place(slots, token, max(0, position - 1)) * s.cols;
  for (std::int64_t c = threadIdx.x; c < s.cols; c += kThreads) x[token * s.cols + c] = from[c];
  if (threadIdx.x == 0) first[token] = min(position, least);
}

}  // namespace

template <class T>
void keep_states(T* states, const T* x, const std::int32_t* positions, const std::int32_t* slots,
                 const PastStatesShape& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  keep_kernel<<<static_cast<unsigned>(s.tokens), kThreads, 0, stream>>>(states, x, positions, slots,
                                                                        s);
  check(cudaGetLastError());
}

template <class T>
void states_before(T* x, std::int32_t* first, const T* states, const std::int32_t* positions,
                   const std::int32_t* slots, std::int32_t least, const PastStatesShape& s,
                   cudaStream_t stream) {
  if (s.tokens == 0) return;
  before_kernel<<<static_cast<unsigned>(s.tokens), kThreads, 0, stream>>>(
      x, first, states, positions, slots, least, s);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                   \
  template void keep_states(T*, const T*, const std::int32_t*, const std::int32_t*,      \
                            const PastStatesShape&, cudaStream_t);                       \
  template void states_before(T*, std::int32_t*, const T*, const std::int32_t*,          \
                              const std::int32_t*, std::int32_t, const PastStatesShape&, \
                              cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
