// The plain form: a thread for each token and channel.  Where rows are of whole packs and there are
// four taps, a thread goes through a run of a sequence's tokens with a pack of channels, and holds
// what taps reach; a token that follows a cache is one kernel for all it does.
#include <algorithm>

#include "kernels/causal_conv.h"
#include "kernels/dependent.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kTokens = 128;  // of which a thread adds dw and db up

constexpr int kRunThreads = 128, kRunTaps = 4;
constexpr std::int64_t kForwardRun = 16, kBackwardRun = 64;  // tokens of a thread at most
constexpr int kBackwardPack = 4;                             // channels of a thread

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>(ceil_div(count, kThreads)); }

template <class T>
struct Conv {
  ConvRows<T> x;
  const T *w, *b;

  __device__ float bias(std::int64_t c) const { return b != nullptr ? to_float(b[c]) : 0; }
  __device__ float sum(std::int64_t sequence, std::int64_t t, std::int64_t c) const {
    const std::int64_t taps = x.s.taps;
    float u = bias(c);
    for (std::int64_t k = 0; k < taps; ++k)
      if (const T* const row = x(sequence, t, taps - 1 - k))
        u += to_float(w[c * taps + k]) * to_float(row[c]);
    return u;
  }
};

template <class T>
__global__ void forward_kernel(T* mixed, const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens() * s.mixed) return;
  const std::int64_t token = i / s.mixed;
  const float u = conv.sum(token / s.length, token % s.length, i % s.mixed);
  mixed[i] = static_cast<T>(u / (1 + expf(-u)));
}

// A thread for each sequence and channel: its last tokens take the place of the first.
template <class T>
__global__ void keep_kernel(T* cache, const ConvRows<T> x) {
  const ConvShape& s = x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, channels = s.mixed,
                     kept = s.taps - 1;
  if (i >= s.sequences * channels) return;
  const std::int64_t sequence = i / channels, c = i % channels;
  for (std::int64_t k = 0; k < kept; ++k) {
    const T* const row = x(sequence, s.length - 1, kept - 1 - k);
    cache[(x.slots.of(sequence) * kept + k) * channels + c] = row ? row[c] : T(0.0f);
  }
}

// A sequence's one token, which follows what the cache has: a thread for each channel.  The cache
// is older than the step's first kernel, which is launched otherwise (dependent.cuh).
template <class T>
__global__ __launch_bounds__(kThreads) void token_kernel(T* mixed, T* cache, const Conv<T> conv) {
  let_next_kernel_begin();
  const ConvShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, channels = s.mixed;
  const bool there = i < s.sequences * channels;
  const std::int64_t sequence = there ? i / channels : 0, c = there ? i % channels : 0;
  T* const kept = cache + conv.x.slots.of(sequence) * (s.taps - 1) * channels + c;
  const bool begins = conv.x.slots.begins(sequence, 1);
  const T of_own = conv.w[c * s.taps + s.taps - 1];
  T rows[kMostTaps];
  float u = conv.bias(c);
#pragma unroll
  for (int k = 0; k + 1 < kMostTaps; ++k) {
    if (k + 1 >= s.taps) break;
    rows[k] = begins ? T(0.0f) : kept[k * channels];
    u += to_float(conv.w[c * s.taps + k]) * to_float(rows[k]);
  }
  wait_for_kernel_before();
  if (!there) return;
  const T own = conv.x.projected[sequence * s.projected + s.mixed_of_projected + c];
#pragma unroll
  for (int k = 0; k + 1 < kMostTaps; ++k) {
    if (k + 1 >= s.taps) break;
    kept[k * channels] = k + 2 < s.taps ? rows[k + 1] : own;
  }
  u += to_float(of_own) * to_float(own);
  mixed[i] = static_cast<T>(u / (1 + expf(-u)));
}

// Run: the tokens of a sequence and the channels that a thread goes through.
template <int N>
struct Run {
  std::int64_t sequence, begin, end, channel;

  __device__ Run(const ConvShape& s, std::int64_t tokens) {
    const std::int64_t runs = (s.length + tokens - 1) / tokens;
    sequence = blockIdx.y / runs;
    begin = blockIdx.y % runs * tokens;
    end = min(begin + tokens, s.length);
    channel = (blockIdx.x * std::int64_t{kRunThreads} + threadIdx.x) * N;
  }
};

// The taps of a pack of channels, and the last rows of x: what a sum is made of.
template <int N, class T>
struct Taps {
  float w[N][kRunTaps], b[N];
  Pack<T, N> x[kRunTaps];  // the oldest first

  __device__ Taps(const Conv<T>& conv, std::int64_t channel) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const auto of = load<kRunTaps>(conv.w + (channel + n) * kRunTaps);
#pragma unroll
      for (int k = 0; k < kRunTaps; ++k) w[n][k] = of[k];
      b[n] = conv.bias(channel + n);
    }
  }
  // What stands before a run's first token.
  __device__ void begin(const Conv<T>& conv, const Run<N>& run) {
#pragma unroll
    for (int k = 1; k < kRunTaps; ++k) {
      const std::int64_t t = run.begin - kRunTaps + k;
      x[k] = t >= 0 ? row(conv, run, t) : Pack<T, N>{};
    }
  }
  __device__ static Pack<T, N> row(const Conv<T>& conv, const Run<N>& run, std::int64_t t) {
    const ConvShape& s = conv.x.s;
    return load<N>(conv.x.projected + (run.sequence * s.length + t) * s.projected +
                   s.mixed_of_projected + run.channel);
  }
  __device__ void push(const Pack<T, N>& next) {
#pragma unroll
    for (int k = 1; k < kRunTaps; ++k) x[k - 1] = x[k];
    x[kRunTaps - 1] = next;
  }
  // x of tap k, of token t, whose document begins there; zeros in front of it.
  __device__ float seen(int n, int k, std::int64_t t, std::int64_t document) const {
    return t - kRunTaps + 1 + k >= document ? x[k][n] : 0;
  }
  __device__ float sum(int n, std::int64_t t, std::int64_t document) const {
    float u = b[n];
#pragma unroll
    for (int k = 0; k < kRunTaps; ++k) u += w[n][k] * seen(n, k, t, document);
    return u;
  }
};

template <int N, class T>
__global__ __launch_bounds__(kRunThreads) void run_forward_kernel(T* mixed, const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const Run<N> run(s, kForwardRun);
  if (run.channel >= s.mixed) return;
  Taps<N, T> taps(conv, run.channel);
  taps.begin(conv, run);
  T* const to = mixed + run.sequence * s.length * s.mixed + run.channel;
#pragma unroll 4
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    taps.push(Taps<N, T>::row(conv, run, t));
    const std::int64_t document = conv.x.first(run.sequence, t);
    float out[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float u = taps.sum(n, t, document);
      out[n] = u / (1 + expf(-u));
    }
    store(to + t * s.mixed, out);
  }
}

// dx of a token is known once du is of those that see it, which may be of the next run: they are
// found again here.  dw: [runs, channels, taps];  db: [runs, channels].
template <int N, class T>
__global__ __launch_bounds__(kRunThreads) void run_backward_kernel(T* d_projected, float* dw,
                                                                   float* db, const T* d_mixed,
                                                                   const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const Run<N> run(s, kBackwardRun);
  if (run.channel >= s.mixed) return;
  Taps<N, T> taps(conv, run.channel);
  taps.begin(conv, run);
  const std::int64_t first = run.sequence * s.length;
  float du[kRunTaps][N] = {}, of_w[N][kRunTaps] = {}, of_b[N] = {};
  std::int64_t documents[kRunTaps] = {};  // of the tokens of du
  for (std::int64_t t = run.begin; t < run.end + kRunTaps - 1; ++t) {
#pragma unroll
    for (int k = 1; k < kRunTaps; ++k) {
      documents[k - 1] = documents[k];
#pragma unroll
      for (int n = 0; n < N; ++n) du[k - 1][n] = du[k][n];
    }
    const bool there = t < s.length;
    if (there) {
      taps.push(Taps<N, T>::row(conv, run, t));
      const auto d = load<N>(d_mixed + (first + t) * s.mixed + run.channel);
      const std::int64_t document = conv.x.first(run.sequence, t);
      documents[kRunTaps - 1] = document;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float u = taps.sum(n, t, document), sigmoid = 1 / (1 + expf(-u)),
                    of_u = d[n] * sigmoid * (1 + u * (1 - sigmoid));
        du[kRunTaps - 1][n] = of_u;
        if (t >= run.end) continue;
        of_b[n] += of_u;
#pragma unroll
        for (int k = 0; k < kRunTaps; ++k) of_w[n][k] += of_u * taps.seen(n, k, t, document);
      }
    }
    const std::int64_t at = t - (kRunTaps - 1);
    if (at < run.begin) continue;
    float dx[N] = {};
#pragma unroll
    for (int ahead = 0; ahead < kRunTaps; ++ahead) {
      if (at + ahead >= s.length || documents[ahead] > at) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) dx[n] += taps.w[n][kRunTaps - 1 - ahead] * du[ahead][n];
    }
    store(d_projected + (first + at) * s.projected + s.mixed_of_projected + run.channel, dx);
  }
  float* const to = dw + (blockIdx.y * s.mixed + run.channel) * kRunTaps;
#pragma unroll
  for (int n = 0; n < N; ++n)
    *reinterpret_cast<float4*>(to + n * kRunTaps) =
        make_float4(of_w[n][0], of_w[n][1], of_w[n][2], of_w[n][3]);
#pragma unroll
  for (int n = 0; n < N; ++n) db[blockIdx.y * s.mixed + run.channel + n] = of_b[n];
}

// Whether threads go through runs with packs of so many channels.
bool fit(const ConvShape& s, std::int64_t pack) {
  return s.taps == kRunTaps && s.mixed % pack == 0 && s.projected % pack == 0 &&
         s.mixed_of_projected % pack == 0;
}
std::int64_t runs(const ConvShape& s, std::int64_t tokens) {
  return s.sequences * ceil_div(s.length, tokens);
}
dim3 grid_of_runs(const ConvShape& s, std::int64_t tokens, std::int64_t pack) {
  return {static_cast<unsigned>(ceil_div(s.mixed, pack * kRunThreads)),
          static_cast<unsigned>(runs(s, tokens))};
}
// Whether a grid's second dimension can count the runs.
bool few_runs(const ConvShape& s, std::int64_t tokens) { return runs(s, tokens) <= 65535; }

template <class T>
__global__ void sums_backward_kernel(float* du, const T* d_mixed, const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens() * s.mixed) return;
  const std::int64_t token = i / s.mixed;
  const float u = conv.sum(token / s.length, token % s.length, i % s.mixed);
  const float sigmoid = 1 / (1 + expf(-u));
  du[i] = to_float(d_mixed[i]) * sigmoid * (1 + u * (1 - sigmoid));
}

template <class T>
__global__ void rows_backward_kernel(T* d_projected, const float* du, const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, channels = s.mixed;
  if (i >= s.tokens() * channels) return;
  const std::int64_t token = i / channels, c = i % channels, sequence = token / s.length,
                     t = token % s.length;
  float dx = 0;
  for (std::int64_t ahead = 0; ahead < s.taps && t + ahead < s.length; ++ahead) {
    if (conv.x.first(sequence, t + ahead) > t) break;  // another document
    dx += to_float(conv.w[c * s.taps + s.taps - 1 - ahead]) * du[i + ahead * channels];
  }
  d_projected[token * s.projected + s.mixed_of_projected + c] = static_cast<T>(dx);
}

// A thread for each channel and part of the tokens.  dw: [parts, channels, taps];  db: [parts,
// channels].
template <class T>
__global__ void weights_backward_kernel(float* dw, float* db, const float* du, const Conv<T> conv) {
  const ConvShape& s = conv.x.s;
  const std::int64_t c = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, part = blockIdx.y,
                     end = min((part + 1) * kTokens, s.tokens());
  if (c >= s.mixed) return;
  float of_w[kMostTaps] = {}, of_b = 0;
  for (std::int64_t token = part * kTokens; token < end; ++token) {
    const float d = du[token * s.mixed + c];
    of_b += d;
#pragma unroll
    for (int k = 0; k < kMostTaps; ++k)
      if (k < s.taps)
        if (const T* const row = conv.x(token / s.length, token % s.length, s.taps - 1 - k))
          of_w[k] += d * to_float(row[c]);
  }
#pragma unroll
  for (int k = 0; k < kMostTaps; ++k)
    if (k < s.taps) dw[(part * s.mixed + c) * s.taps + k] = of_w[k];
  db[part * s.mixed + c] = of_b;
}

std::int64_t parts(const ConvShape& s) { return ceil_div(s.tokens(), kTokens); }

}  // namespace

template <class T>
void causal_conv_forward(T* mixed, T* cache, const T* projected, const T* w, const T* b,
                         const std::int32_t* first_key, const CacheSlots& slots, const ConvShape& s,
                         cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const ConvRows<T> x{cache, projected, first_key, slots, s};
  if (cache != nullptr && s.length == 1)
    return launch_dependent(token_kernel<T>, blocks_for(s.tokens() * s.mixed), kThreads, 0, stream,
                            mixed, cache, Conv<T>{x, w, b});
  if (constexpr int N = kWide<T>;
      cache == nullptr && fit(s, N) && few_runs(s, kForwardRun) && aligned(mixed, projected, w)) {
    run_forward_kernel<N, T>
        <<<grid_of_runs(s, kForwardRun, N), kRunThreads, 0, stream>>>(mixed, {x, w, b});
    return check(cudaGetLastError());
  }
  forward_kernel<T><<<blocks_for(s.tokens() * s.mixed), kThreads, 0, stream>>>(mixed, {x, w, b});
  check(cudaGetLastError());
  if (cache == nullptr) return;
  keep_kernel<<<blocks_for(s.sequences * s.mixed), kThreads, 0, stream>>>(cache, x);
  check(cudaGetLastError());
}

std::size_t causal_conv_backward_work(const ConvShape& s) {
  const std::int64_t plain = s.tokens() + parts(s) * (s.taps + 1),
                     of_runs = runs(s, kBackwardRun) * (s.taps + 1);
  return static_cast<std::size_t>(s.mixed * std::max(plain, of_runs)) * sizeof(float);
}

template <class T, class G>
void causal_conv_backward(T* d_projected, G* dw, G* db, const T* d_mixed, const T* projected,
                          const T* w, const T* b, const std::int32_t* first_key, const ConvShape& s,
                          void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Conv<T> conv{{nullptr, projected, first_key, {}, s}, w, b};
  if (fit(s, kBackwardPack) && few_runs(s, kBackwardRun) &&
      aligned(d_projected, d_mixed, projected, w)) {
    const std::int64_t count = runs(s, kBackwardRun);
    auto* const of_w = static_cast<float*>(work);
    float* const of_b = of_w + count * s.mixed * s.taps;
    run_backward_kernel<kBackwardPack, T>
        <<<grid_of_runs(s, kBackwardRun, kBackwardPack), kRunThreads, 0, stream>>>(
            d_projected, of_w, of_b, d_mixed, conv);
    check(cudaGetLastError());
    add_parts<G>(dw, nullptr, of_w, count, s.mixed * s.taps, stream);
    if (db != nullptr) add_parts<G>(db, nullptr, of_b, count, s.mixed, stream);
    return;
  }
  const unsigned blocks = blocks_for(s.tokens() * s.mixed);
  auto* const du = static_cast<float*>(work);
  float* const part_w = du + s.tokens() * s.mixed;
  float* const part_b = part_w + parts(s) * s.mixed * s.taps;
  sums_backward_kernel<<<blocks, kThreads, 0, stream>>>(du, d_mixed, conv);
  rows_backward_kernel<<<blocks, kThreads, 0, stream>>>(d_projected, du, conv);
  const dim3 grid(blocks_for(s.mixed), static_cast<unsigned>(parts(s)));
  weights_backward_kernel<<<grid, kThreads, 0, stream>>>(part_w, part_b, du, conv);
  check(cudaGetLastError());
  add_parts<G>(dw, nullptr, part_w, parts(s), s.mixed * s.taps, stream);
  if (db != nullptr) add_parts<G>(db, nullptr, part_b, parts(s), s.mixed, stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                       \
  template void causal_conv_backward(T*, G*, G*, const T*, const T*, const T*, const T*, \
                                     const std::int32_t*, const ConvShape&, void*, cudaStream_t);
#define INSTANTIATE(T)                                                                         \
  template void causal_conv_forward(T*, T*, const T*, const T*, const T*, const std::int32_t*, \
                                    const CacheSlots&, const ConvShape&, cudaStream_t);        \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
