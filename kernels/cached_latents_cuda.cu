
#include "kernels/cached_latents.h"
#include "kernels/cuda_check.h"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// A block works on a token: pairs of its queries' channels and of its turning key's, then its
// latent.
template <class T>
__global__ __launch_bounds__(kThreads) void latents_kernel(const CachedLatents<T> t,
                                                           const Turn turn,
                                                           const CachedLatentsShape s) {
  const std::int64_t token = blockIdx.x, length = s.tokens / s.sequences,
                     row = row_in_cache(t.slots, s.runs, s.capacity, token / length,
                                        t.positions[token]);
  T* const place = t.cache + row * s.width();
  for (std::int64_t i = threadIdx.x; i < (s.heads + 1) * turn.half; i += kThreads) {
    const std::int64_t head = i / turn.half, query = token * s.heads + head;
    const bool is_key = head == s.heads;
    turn.operator()<1>(
        is_key ? place : t.q + query * s.width(),
        is_key ? t.turning + token * s.turning : t.q_rows + query * (s.fixed + s.turning) + s.fixed,
        static_cast<int>(s.turning), token, static_cast<int>(i % turn.half));
  }
  for (std::int64_t c = threadIdx.x; c < s.rank; c += kThreads)
    place[s.turning + c] = t.latents[token * s.rank + c];
}

// A block makes kColumns channels of kTokens tokens of a head, a thread one channel of every
// fourth token; what is read of x and of the weight goes by kDepth channels through shared memory.
constexpr int kColumns = 64, kTokens = 16, kDepth = 32, kApart = kThreads / kColumns;

template <class T>
__global__ __launch_bounds__(kThreads) void product_kernel(T* out, const T* x, const T* w,
                                                           const HeadProductShape s) {
  __shared__ float xs[kTokens][kDepth], ws[kDepth][kColumns + 1];
  const std::int64_t head = blockIdx.y, first_token = std::int64_t{blockIdx.z} * kTokens;
  const int first = static_cast<int>(blockIdx.x) * kColumns, read = static_cast<int>(s.read()),
            made = static_cast<int>(s.made());
  const int tokens = static_cast<int>(min(std::int64_t{kTokens}, s.tokens - first_token));
  const T* const own = w + (head * s.rows_of_head + s.first_row) * s.cols;
  const T* const from = x + (first_token * s.heads + head) * s.x_width + s.first_x;
  const int column = static_cast<int>(threadIdx.x) % kColumns,
            token = static_cast<int>(threadIdx.x) / kColumns;
  float sums[kTokens / kApart] = {};
  for (int begin = 0; begin < read; begin += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * kDepth; i += kThreads) {
      const int n = i / kDepth, k = i % kDepth;
      const bool exists = n < tokens && begin + k < read;
      xs[n][k] = exists ? to_float(from[n * s.heads * s.x_width + begin + k]) : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kColumns * kDepth; i += kThreads) {
      // Neighbours read neighbours.
      const int k = s.transposed ? i % kDepth : i / kColumns,
                c = s.transposed ? i / kDepth : i % kColumns;
      const bool exists = begin + k < read && first + c < made;
      const std::int64_t place = s.transposed ? std::int64_t{first + c} * s.cols + begin + k
                                              : std::int64_t{begin + k} * s.cols + first + c;
      ws[k][c] = exists ? to_float(own[place]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTokens / kApart; ++n)
      if (token + n * kApart < tokens)
#pragma unroll
        for (int k = 0; k < kDepth; ++k)
          sums[n] = fmaf(xs[token + n * kApart][k], ws[k][column], sums[n]);
    __syncthreads();
  }
  if (first + column >= made) return;
#pragma unroll
  for (int n = 0; n < kTokens / kApart; ++n)
    if (const int at = token + n * kApart; at < tokens)
      out[((first_token + at) * s.heads + head) * s.out_width + s.first_out + first + column] =
          static_cast<T>(sums[n]);
}

}  // namespace

template <class T>
void cached_latents(const CachedLatents<T>& tensors, const float* angles,
                    const CachedLatentsShape& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  const Turn turn{angles, static_cast<int>(s.turning / 2), true, 1};
  latents_kernel<<<static_cast<unsigned>(s.tokens), kThreads, 0, stream>>>(tensors, turn, s);
  check(cudaGetLastError());
}

template <class T>
void head_product(T* out, const T* x, const T* w, const HeadProductShape& s, cudaStream_t stream) {
  if (s.tokens * s.heads * s.made() == 0) return;
  const dim3 blocks(static_cast<unsigned>(ceil_div(s.made(), kColumns)),
                    static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(ceil_div(s.tokens, kTokens)));
  product_kernel<<<blocks, kThreads, 0, stream>>>(out, x, w, s);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                           \
  template void cached_latents(const CachedLatents<T>&, const float*, const CachedLatentsShape&, \
                               cudaStream_t);                                                    \
  template void head_product(T*, const T*, const T*, const HeadProductShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
