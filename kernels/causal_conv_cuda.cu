// A thread for each token and channel.
#include "kernels/causal_conv.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kTokens = 128;  // of which a thread adds dw and db up

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(ceil_div(count, kThreads)); }

template <class T>
struct Conv {
  ConvRows<T> x;
  const T *w, *b;

  __device__ float sum(std::int64_t sequence, std::int64_t t, std::int64_t c) const {
    const std::int64_t taps = x.s.taps;
    float u = to_float(b[c]);
    for (std::int64_t k = 0; k < taps; ++k)
      if (const T* const row = x(sequence, t, taps - 1 - k))
        u += to_float(w[c * taps + k]) * to_float(row[c]);
    return u;
  }
};

template <class T>
__global__ void forward_kernel(T* mixed, const Conv<T> conv) {
  const MambaShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens() * s.mixed()) return;
  const std::int64_t token = i / s.mixed();
  const float u = conv.sum(token / s.length, token % s.length, i % s.mixed());
  mixed[i] = static_cast<T>(u / (1 + expf(-u)));
}

// A thread for each sequence and channel: its last tokens take the place of the first.
template <class T>
__global__ void keep_kernel(T* cache, const ConvRows<T> x) {
  const MambaShape& s = x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, channels = s.mixed(),
                     kept = s.taps - 1;
  if (i >= s.sequences * channels) return;
  const std::int64_t sequence = i / channels, c = i % channels;
  for (std::int64_t k = 0; k < kept; ++k) {
    const T* const row = x(sequence, s.length - 1, kept - 1 - k);
    cache[(x.slots.of(sequence) * kept + k) * channels + c] = row ? row[c] : T(0.0f);
  }
}

template <class T>
__global__ void sums_backward_kernel(float* du, const T* d_mixed, const Conv<T> conv) {
  const MambaShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens() * s.mixed()) return;
  const std::int64_t token = i / s.mixed();
  const float u = conv.sum(token / s.length, token % s.length, i % s.mixed());
  const float sigmoid = 1 / (1 + expf(-u));
  du[i] = to_float(d_mixed[i]) * sigmoid * (1 + u * (1 - sigmoid));
}

template <class T>
__global__ void rows_backward_kernel(T* d_projected, const float* du, const Conv<T> conv) {
  const MambaShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, channels = s.mixed();
  if (i >= s.tokens() * channels) return;
  const std::int64_t token = i / channels, c = i % channels, sequence = token / s.length,
                     t = token % s.length;
  float dx = 0;
  for (std::int64_t ahead = 0; ahead < s.taps && t + ahead < s.length; ++ahead) {
    if (conv.x.first(sequence, t + ahead) > t) break;  // another document
    dx += to_float(conv.w[c * s.taps + s.taps - 1 - ahead]) * du[i + ahead * channels];
  }
  d_projected[token * s.projected() + s.mixed_of_projected() + c] = static_cast<T>(dx);
}

// A thread for each channel and part of the tokens.  dw: [parts, channels, taps];  db: [parts,
// channels].
template <class T>
__global__ void weights_backward_kernel(float* dw, float* db, const float* du, const Conv<T> conv) {
  const MambaShape& s = conv.x.s;
  const std::int64_t c = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, part = blockIdx.y,
                     end = min((part + 1) * kTokens, s.tokens());
  if (c >= s.mixed()) return;
  float of_w[kMostTaps] = {}, of_b = 0;
  for (std::int64_t token = part * kTokens; token < end; ++token) {
    const float d = du[token * s.mixed() + c];
    of_b += d;
#pragma unroll
    for (int k = 0; k < kMostTaps; ++k)
      if (k < s.taps)
        if (const T* const row = conv.x(token / s.length, token % s.length, s.taps - 1 - k))
          of_w[k] += d * to_float(row[c]);
  }
#pragma unroll
  for (int k = 0; k < kMostTaps; ++k)
    if (k < s.taps) dw[(part * s.mixed() + c) * s.taps + k] = of_w[k];
  db[part * s.mixed() + c] = of_b;
}

std::int64_t parts(const MambaShape& s) { return ceil_div(s.tokens(), kTokens); }

}  // namespace

template <class T>
void causal_conv_forward(T* mixed, T* cache, const T* projected, const T* w, const T* b,
                         const std::int32_t* first_key, const CacheSlots& slots,
                         const MambaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const ConvRows<T> x{cache, projected, first_key, slots, s};
  forward_kernel<T><<<blocks_for(s.tokens() * s.mixed()), kThreads, 0, stream>>>(mixed, {x, w, b});
  check(cudaGetLastError());
  if (cache == nullptr) return;
  keep_kernel<<<blocks_for(s.sequences * s.mixed()), kThreads, 0, stream>>>(cache, x);
  check(cudaGetLastError());
}

std::size_t causal_conv_backward_work(const MambaShape& s) {
  return static_cast<std::size_t>(s.mixed() * (s.tokens() + parts(s) * (s.taps + 1))) *
         sizeof(float);
}

template <class T, class G>
void causal_conv_backward(T* d_projected, G* dw, G* db, const T* d_mixed, const T* projected,
                          const T* w, const T* b, const std::int32_t* first_key,
                          const MambaShape& s, void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Conv<T> conv{{nullptr, projected, first_key, {}, s}, w, b};
  const unsigned blocks = blocks_for(s.tokens() * s.mixed());
  auto* const du = static_cast<float*>(work);
  float* const part_w = du + s.tokens() * s.mixed();
  float* const part_b = part_w + parts(s) * s.mixed() * s.taps;
  sums_backward_kernel<<<blocks, kThreads, 0, stream>>>(du, d_mixed, conv);
  rows_backward_kernel<<<blocks, kThreads, 0, stream>>>(d_projected, du, conv);
  const dim3 grid(blocks_for(s.mixed()), static_cast<unsigned>(parts(s)));
  weights_backward_kernel<<<grid, kThreads, 0, stream>>>(part_w, part_b, du, conv);
  check(cudaGetLastError());
  add_parts<G>(dw, nullptr, part_w, parts(s), s.mixed() * s.taps, stream);
  add_parts<G>(db, nullptr, part_b, parts(s), s.mixed(), stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                       \
  template void causal_conv_backward(T*, G*, G*, const T*, const T*, const T*, const T*, \
                                     const std::int32_t*, const MambaShape&, void*, cudaStream_t);
#define INSTANTIATE(T)                                                                         \
  template void causal_conv_forward(T*, T*, const T*, const T*, const T*, const std::int32_t*, \
                                    const CacheSlots&, const MambaShape&, cudaStream_t);       \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
