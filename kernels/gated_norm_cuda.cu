// A block for each token and group.
#include "kernels/gated_norm.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kTokens = 128;  // of which a thread adds dw up

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

std::int64_t parts(const MambaShape& s) { return ceil_div(s.tokens(), kTokens); }

}  // namespace

template <class T>
void gated_norm_forward(T* out, float* rstd, const T* y, const T* projected, const T* w, double eps,
                        const MambaShape& s, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  forward_kernel<T><<<static_cast<unsigned>(s.tokens() * s.groups), kThreads, 0, stream>>>(
      out, rstd, w, {y, projected, nullptr, s}, static_cast<float>(eps));
  check(cudaGetLastError());
}

std::size_t gated_norm_backward_work(const MambaShape& s) {
  return static_cast<std::size_t>(parts(s) * s.inner()) * sizeof(float);
}

template <class T, class G>
void gated_norm_backward(T* dy, T* d_projected, G* dw, const T* d_out, const T* y,
                         const T* projected, const float* rstd, const T* w, const MambaShape& s,
                         void* work, cudaStream_t stream) {
  if (s.tokens() == 0) return;
  const Gated<T> in{y, projected, rstd, s};
  backward_kernel<<<static_cast<unsigned>(s.tokens() * s.groups), kThreads, 0, stream>>>(
      dy, d_projected, d_out, w, in);
  auto* const part = static_cast<float*>(work);
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
