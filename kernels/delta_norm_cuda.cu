// A warp for each token and value head.  A backward's warps go through some of them, one after
// another, and add dw up in shared memory.
#include "kernels/delta_norm.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr std::int64_t kRun = 128;  // heads of tokens of which a block adds dw up

__device__ float sigmoid(float z) { return 1 / (1 + expf(-z)); }

// Head: a value head of a token, of which this lane takes every 32nd channel.
template <class T>
struct Head {
  const T *y, *z, *w;
  float one;  // more than what is stored of w
  std::int64_t z_column;

  __device__ Head(std::int64_t i, const T* rows, const T* projected, const T* w, bool zero_centered,
                  const DeltaShape& s)
      : y(rows + i * s.value_dim),
        w(w),
        one(zero_centered ? 1.0f : 0.0f),
        z_column(i / s.value_heads * s.projected() + s.z_of_projected() +
                 i % s.value_heads * s.value_dim) {
    z = projected + z_column;
  }
  __device__ float weight(std::int64_t c) const { return one + to_float(w[c]); }
};

__device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

template <class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* out, float* rstd, const T* y,
                                                           const T* projected, const T* w,
                                                           float eps, bool zero_centered,
                                                           const DeltaShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kWarps} + warp();
  if (i >= s.tokens() * s.value_heads) return;
  const Head<T> head(i, y, projected, w, zero_centered, s);
  float squares = 0;
  for (std::int64_t c = lane(); c < s.value_dim; c += 32) {
    const float x = to_float(head.y[c]);
    squares += x * x;
  }
  const float r = rsqrtf(over_lanes(squares) / static_cast<float>(s.value_dim) + eps);
  for (std::int64_t c = lane(); c < s.value_dim; c += 32) {
    const float z = to_float(head.z[c]);
    out[i * s.value_dim + c] =
        static_cast<T>(to_float(head.y[c]) * r * head.weight(c) * z * sigmoid(z));
  }
  if (lane() == 0) rstd[i] = r;
}

// part: [blocks, value_dim].
template <class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(T* dy, T* d_projected, float* part,
                                                            const T* d_out, const T* y,
                                                            const T* projected, const float* rstd,
                                                            const T* w, bool zero_centered,
                                                            const DeltaShape s) {
  extern __shared__ float of_w[];  // [warps, value_dim]
  float* const own = of_w + warp() * s.value_dim;
  for (std::int64_t c = lane(); c < s.value_dim; c += 32) own[c] = 0;
  const std::int64_t begin = blockIdx.x * kRun, end = min(begin + kRun, s.tokens() * s.value_heads);
  for (std::int64_t i = begin + warp(); i < end; i += kWarps) {
    const Head<T> head(i, y, projected, w, zero_centered, s);
    const T* const d = d_out + i * s.value_dim;
    const float r = rstd[i];
    const auto e = [&](std::int64_t c, float gate) {
      return to_float(d[c]) * head.weight(c) * gate;
    };
    float sum_en = 0;
    for (std::int64_t c = lane(); c < s.value_dim; c += 32) {
      const float z = to_float(head.z[c]);
      sum_en += e(c, z * sigmoid(z)) * to_float(head.y[c]) * r;
    }
    const float mean_en = over_lanes(sum_en) / static_cast<float>(s.value_dim);
    for (std::int64_t c = lane(); c < s.value_dim; c += 32) {
      const float z = to_float(head.z[c]), open = sigmoid(z), n = to_float(head.y[c]) * r,
                  of_n = to_float(d[c]) * n;
      own[c] += of_n * z * open;
      d_projected[head.z_column + c] =
          static_cast<T>(of_n * head.weight(c) * open * (1 + z * (1 - open)));
      dy[i * s.value_dim + c] = static_cast<T>(r * (e(c, z * open) - n * mean_en));
    }
  }
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < s.value_dim; c += kThreads) {
    float sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += of_w[i * s.value_dim + c];
    part[blockIdx.x * s.value_dim + c] = sum;
  }
}

std::int64_t runs(const DeltaShape& s) { return ceil_div(s.tokens() * s.value_heads, kRun); }

}  // namespace

template <class T>
void delta_norm_forward(T* out, float* rstd, const T* y, const T* projected, const T* w,
                        const DeltaNorm& norm, const DeltaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(s.tokens() * s.value_heads, kWarps));
  forward_kernel<<<blocks, kThreads, 0, stream>>>(
      out, rstd, y, projected, w, static_cast<float>(norm.eps), norm.zero_centered, s);
  check(cudaGetLastError());
}

std::size_t delta_norm_backward_work(const DeltaShape& s) {
  return static_cast<std::size_t>(runs(s) * s.value_dim) * sizeof(float);
}

template <class T, class G>
void delta_norm_backward(T* dy, T* d_projected, G* dw, const T* d_out, const T* y,
                         const T* projected, const float* rstd, const T* w, const DeltaNorm& norm,
                         const DeltaShape& s, void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  auto* const part = static_cast<float*>(work);
  const std::size_t shared = static_cast<std::size_t>(kWarps * s.value_dim) * sizeof(float);
  backward_kernel<<<static_cast<unsigned>(runs(s)), kThreads, shared, stream>>>(
      dy, d_projected, part, d_out, y, projected, rstd, w, norm.zero_centered, s);
  check(cudaGetLastError());
  add_parts<G>(dw, nullptr, part, runs(s), s.value_dim, stream);
}

#define INSTANTIATE_BACKWARD(T, G)                                                          \
  template void delta_norm_backward(T*, T*, G*, const T*, const T*, const T*, const float*, \
                                    const T*, const DeltaNorm&, const DeltaShape&, void*,   \
                                    cudaStream_t);
#define INSTANTIATE(T)                                                                         \
  template void delta_norm_forward(T*, float*, const T*, const T*, const T*, const DeltaNorm&, \
                                   const DeltaShape&, cudaStream_t);                           \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
INSTANTIATE_BACKWARD(bf16, bf16)
#undef INSTANTIATE
#undef INSTANTIATE_BACKWARD

}  // namespace mt::cuda
