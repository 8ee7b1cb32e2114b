// The plain form: a block for each token and group reads what it needs again and again.  Where
// groups are of whole packs a block's threads hold theirs, a backward's of kRun tokens, one after
// another, of which they add dw up.
#include <algorithm>

#include "kernels/dependent.cuh"
#include "kernels/gated_norm.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kTokens = 128;          // of which a thread adds dw up
constexpr std::int64_t kRun = 16;              // likewise, where threads hold their packs
constexpr int kMostThreads = 512, kPacks = 2;  // of a block, and of a thread, at most

__device__ float sigmoid(float z) { return 1 / (1 + expf(-z)); }

template <class T>
struct Gated {
  const T *y, *projected;
  const float* rstd;
  MambaShape s;

  __device__ float z(std::int64_t token, std::int64_t c) const {
    return to_float(projected[token * s.projected() + c]);
  }
  __device__ float h(std::int64_t token, std::int64_t c) const {
    const float gate = z(token, c);
    return to_float(y[token * s.inner() + c]) * gate * sigmoid(gate);
  }
};

template <class T>
__global__ void forward_kernel(T* out, float* rstd, const T* w, const Gated<T> in, float eps) {
  __shared__ float shared[kThreads / 32];
  const MambaShape& s = in.s;
  const std::int64_t token = blockIdx.x / s.groups, width = s.inner() / s.groups,
                     first = blockIdx.x % s.groups * width;
  float squares = 0;
  for (std::int64_t c = first + threadIdx.x; c < first + width; c += kThreads) {
    const float h = in.h(token, c);
    squares += h * h;
  }
  const float r = rsqrtf(over_block(squares, shared) / float(width) + eps);
  for (std::int64_t c = first + threadIdx.x; c < first + width; c += kThreads)
    out[token * s.inner() + c] = static_cast<T>(in.h(token, c) * r * to_float(w[c]));
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

template <class T>
__global__ void backward_kernel(T* dy, T* d_projected, const T* d_out, const T* w,
                                const Gated<T> in) {
  __shared__ float shared[kThreads / 32];
  const MambaShape& s = in.s;
  const std::int64_t token = blockIdx.x / s.groups, width = s.inner() / s.groups,
                     first = blockIdx.x % s.groups * width;
  const float r = in.rstd[blockIdx.x];
  const auto e = [&](std::int64_t c) {
    return to_float(d_out[token * s.inner() + c]) * to_float(w[c]);
  };
  float sum_en = 0;
  for (std::int64_t c = first + threadIdx.x; c < first + width; c += kThreads)
    sum_en += e(c) * in.h(token, c) * r;
  const float mean_en = over_block(sum_en, shared) / float(width);
  for (std::int64_t c = first + threadIdx.x; c < first + width; c += kThreads) {
    const float z = in.z(token, c), open = sigmoid(z), y = to_float(in.y[token * s.inner() + c]),
                dh = r * (e(c) - in.h(token, c) * r * mean_en);
    d_projected[token * s.projected() + c] = static_cast<T>(dh * y * open * (1 + z * (1 - open)));
    dy[token * s.inner() + c] = static_cast<T>(dh * z * open);
  }
}

template <class T>  // a thread for each channel and part of the tokens;  part: [parts, inner]
__global__ void weight_backward_kernel(float* part, const T* d_out, const Gated<T> in) {
  const MambaShape& s = in.s;
  const std::int64_t c = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const std::int64_t begin = blockIdx.y * kTokens, end = min(begin + kTokens, s.tokens());
  if (c >= s.inner()) return;
  const std::int64_t group = c / (s.inner() / s.groups);
  float sum = 0;
  for (std::int64_t token = begin; token < end; ++token)
    sum +=
        to_float(d_out[token * s.inner() + c]) * in.h(token, c) * in.rstd[token * s.groups + group];
  part[blockIdx.y * s.inner() + c] = sum;
}

// Held: a group's rows in the registers of a block, thread t's packs standing blockDim.x apart.
template <int N>
struct Held {
  std::int64_t group, first, end;  // of its channels

  __device__ explicit Held(const MambaShape& s) {
    const std::int64_t width = s.inner() / s.groups;
    group = blockIdx.x % s.groups;
    first = group * width;
    end = first + width;
  }
  __device__ std::int64_t channel(int p) const {
    return first + (p * std::int64_t{blockDim.x} + threadIdx.x) * N;
  }
  // body(channel of a pack, p) for this thread's.
  template <class Body>
  __device__ void for_packs(const Body& body) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (const std::int64_t c = channel(p); c < end) body(c, p);
  }
};

template <int N, class T>
__global__ __launch_bounds__(kMostThreads) void held_forward_kernel(T* out, float* rstd, const T* w,
                                                                    const Gated<T> in, float eps) {
  __shared__ float shared[kMostThreads / 32];
  let_next_kernel_begin();
  const MambaShape& s = in.s;
  const Held<N> held(s);
  const std::int64_t token = blockIdx.x / s.groups;
  Pack<T, N> weight[kPacks];
  held.for_packs([&](std::int64_t c, int p) { weight[p] = load<N>(w + c); });
  wait_for_kernel_before();
  float h[kPacks][N], squares = 0;
  held.for_packs([&](std::int64_t c, int p) {
    const auto y = load<N>(in.y + token * s.inner() + c),
               z = load<N>(in.projected + token * s.projected() + c);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      h[p][n] = y[n] * z[n] * sigmoid(z[n]);
      squares += h[p][n] * h[p][n];
    }
  });
  const float r = rsqrtf(over_block(squares, shared) / float(held.end - held.first) + eps);
  held.for_packs([&](std::int64_t c, int p) {
    float to[N];
#pragma unroll
    for (int n = 0; n < N; ++n) to[n] = h[p][n] * r * weight[p][n];
    store(out + token * s.inner() + c, to);
  });
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// part: [runs, inner].
template <int N, class T>
__global__ __launch_bounds__(kMostThreads) void held_backward_kernel(T* dy, T* d_projected,
                                                                     float* part, const T* d_out,
                                                                     const T* w,
                                                                     const Gated<T> in) {
  __shared__ float shared[2][kMostThreads / 32];  // by turns
  const MambaShape& s = in.s;
  const Held<N> held(s);
  const std::int64_t run = blockIdx.x / s.groups, begin = run * kRun,
                     end = min(begin + kRun, s.tokens());
  const float inv_width = 1 / float(held.end - held.first);
  Pack<T, N> weight[kPacks];
  held.for_packs([&](std::int64_t c, int p) { weight[p] = load<N>(w + c); });
  float of_w[kPacks][N] = {};
  for (std::int64_t token = begin; token < end; ++token) {
    const float r = in.rstd[token * s.groups + held.group];
    Pack<T, N> y[kPacks], z[kPacks], d[kPacks];
    held.for_packs([&](std::int64_t c, int p) {
      y[p] = load<N>(in.y + token * s.inner() + c);
      z[p] = load<N>(in.projected + token * s.projected() + c);
      d[p] = load<N>(d_out + token * s.inner() + c);
    });
    float sum_en = 0;
    held.for_packs([&](std::int64_t, int p) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normed = y[p][n] * z[p][n] * sigmoid(z[p][n]) * r;
        sum_en += d[p][n] * weight[p][n] * normed;
        of_w[p][n] += d[p][n] * normed;
      }
    });
    const float mean_en = over_block(sum_en, shared[token % 2]) * inv_width;
    held.for_packs([&](std::int64_t c, int p) {
      float to_y[N], to_z[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float gate = z[p][n], open = sigmoid(gate), normed = y[p][n] * gate * open * r,
                    dh = r * (d[p][n] * weight[p][n] - normed * mean_en);
        to_z[n] = dh * y[p][n] * open * (1 + gate * (1 - open));
        to_y[n] = dh * gate * open;
      }
      store(dy + token * s.inner() + c, to_y);
      store(d_projected + token * s.projected() + c, to_z);
    });
  }
  held.for_packs([&](std::int64_t c, int p) {
#pragma unroll
    for (int n = 0; n < N; ++n) part[run * s.inner() + c + n] = of_w[p][n];
  });
}

std::int64_t parts(const MambaShape& s) { return ceil_div(s.tokens(), kTokens); }
std::int64_t runs(const MambaShape& s) { return ceil_div(s.tokens(), kRun); }

// The threads of a block that holds packs of N; 0: it cannot.
template <int N>
int threads_to_hold(const MambaShape& s) {
  const std::int64_t width = s.inner() / s.groups, packs = width / N;
  if (width % N != 0 || s.projected() % N != 0 || packs > kPacks * kMostThreads) return 0;
  return static_cast<int>(ceil_div(ceil_div(packs, packs > kMostThreads ? kPacks : 1), 32) * 32);
}

}  // namespace

template <class T>
void gated_norm_forward(T* out, float* rstd, const T* y, const T* projected, const T* w, double eps,
                        const MambaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  constexpr int N = kWide<T>;
  if (const int threads = threads_to_hold<N>(s); threads > 0 && aligned(out, y, projected, w)) {
    const Gated<T> in{y, projected, nullptr, s};
    if (s.length == 1)
      return launch_dependent(held_forward_kernel<N, T>, s.tokens() * s.groups, threads, 0, stream,
                              out, rstd, w, in, static_cast<float>(eps));
    held_forward_kernel<N, T><<<static_cast<unsigned>(s.tokens() * s.groups), threads, 0, stream>>>(
        out, rstd, w, in, static_cast<float>(eps));
    return check(cudaGetLastError());
  }
  forward_kernel<T><<<static_cast<unsigned>(s.tokens() * s.groups), kThreads, 0, stream>>>(
      out, rstd, w, {y, projected, nullptr, s}, static_cast<float>(eps));
  check(cudaGetLastError());
}

std::size_t gated_norm_backward_work(const MambaShape& s) {
  return static_cast<std::size_t>(std::max(parts(s), runs(s)) * s.inner()) * sizeof(float);
}

template <class T, class G>
void gated_norm_backward(T* dy, T* d_projected, G* dw, const T* d_out, const T* y,
                         const T* projected, const float* rstd, const T* w, const MambaShape& s,
                         void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Gated<T> in{y, projected, rstd, s};
  auto* const part = static_cast<float*>(work);
  constexpr int N = kWide<T>;
  const int threads = threads_to_hold<N>(s);
  if (threads > 0 && aligned(dy, d_projected, d_out, y, projected, w)) {
    held_backward_kernel<N, T><<<static_cast<unsigned>(runs(s) * s.groups), threads, 0, stream>>>(
        dy, d_projected, part, d_out, w, in);
    check(cudaGetLastError());
    return add_parts<G>(dw, nullptr, part, runs(s), s.inner(), stream);
  }
  backward_kernel<<<static_cast<unsigned>(s.tokens() * s.groups), kThreads, 0, stream>>>(
      dy, d_projected, d_out, w, in);
  const dim3 grid(static_cast<unsigned>(ceil_div(s.inner(), kThreads)),
                  static_cast<unsigned>(parts(s)));
  weight_backward_kernel<<<grid, kThreads, 0, stream>>>(part, d_out, in);
  check(cudaGetLastError());
  add_parts<G>(dw, nullptr, part, parts(s), s.inner(), stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                          \
  template void gated_norm_backward(T*, T*, G*, const T*, const T*, const T*, const float*, \
                                    const T*, const MambaShape&, void*, cudaStream_t);
#define INSTANTIATE(T)                                                               \
  template void gated_norm_forward(T*, float*, const T*, const T*, const T*, double, \
                                   const MambaShape&, cudaStream_t);                 \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
