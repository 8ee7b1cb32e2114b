#include "kernels/elementwise.h"
#include "kernels/map.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

struct Scale {
  float factor;
  __device__ float operator()(const float (&x)[1]) const { return factor * x[0]; }
};
struct ScaleBy {
  const double* factor;
  __device__ float operator()(const float (&x)[1]) const {
    return static_cast<float>(x[0] * *factor);
  }
};
struct Clamp {
  float bound;
  __device__ float operator()(const float (&x)[1]) const {
    return x[0] < -bound ? -bound : x[0] > bound ? bound : x[0];  // NaN stays
  }
};
struct ClampBackward {
  float bound;
  __device__ float operator()(const float (&x)[2]) const { return fabsf(x[1]) <= bound ? x[0] : 0; }
};
struct Same {
  __device__ float operator()(const float (&x)[1]) const { return x[0]; }
};

template <int N, class S, class T>
__global__ __launch_bounds__(kMapThreads) void add_kernel(S* y, const S* a, const T* b,
                                                          std::int64_t count) {
  const std::int64_t i = (blockIdx.x * std::int64_t{kMapThreads} + threadIdx.x) * N;
  if (i + N <= count) {
    const auto ours = load<N>(a + i);
    const auto theirs = load<N>(b + i);
    float sums[N];
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] = ours[n] + theirs[n];
    return store(y + i, sums);
  }
  for (std::int64_t j = i; j < count; ++j) y[j] = static_cast<S>(to_float(a[j]) + to_float(b[j]));
}

template <int N, class T>
__global__ __launch_bounds__(kMapThreads) void fill_kernel(T* y, float value, std::int64_t count) {
  const std::int64_t i = (blockIdx.x * std::int64_t{kMapThreads} + threadIdx.x) * N;
  float values[N];
#pragma unroll
  for (int n = 0; n < N; ++n) values[n] = value;
  if (i + N <= count) return store(y + i, values);
  for (std::int64_t j = i; j < count; ++j) y[j] = static_cast<T>(value);
}

// Units of U, of which a run has `units`, in the order of y; fewer than 2^32 in all.
template <class U>
__global__ __launch_bounds__(kMapThreads) void swap_axes_kernel(U* y, const U* x, std::uint32_t a,
                                                                std::uint32_t b,
                                                                std::uint32_t units) {
  const std::uint32_t at = blockIdx.x * kMapThreads + threadIdx.x;
  const std::uint32_t run = at / units, j = run / a, i = run - j * a;
  if (j < b) y[at] = x[(i * b + j) * units + at - run * units];
}

}  // namespace

void swap_axes(void* y, const void* x, std::int64_t a, std::int64_t b, std::int64_t bytes,
               cudaStream_t stream) {
  if (a * b * bytes == 0) return;
  const auto launch = [&]<class U>(const U* from) {
    const std::int64_t units = bytes / static_cast<std::int64_t>(sizeof(U));
    const auto blocks = static_cast<unsigned>(ceil_div(a * b * units, std::int64_t{kMapThreads}));
    swap_axes_kernel<<<blocks, kMapThreads, 0, stream>>>(
        static_cast<U*>(y), from, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(units));
  };
  if (bytes % 16 == 0 && aligned(y, x))
    launch(static_cast<const uint4*>(x));
  else
    launch(static_cast<const std::uint16_t*>(x));
  check(cudaGetLastError());
}

template <class S, class T>
void add(S* y, const S* a, const T* b, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  with_width<kWide<S, T>>(aligned(y, a, b), [&]<int N>() {
    const auto blocks = static_cast<unsigned>(ceil_div(count, std::int64_t{kMapThreads} * N));
    add_kernel<N><<<blocks, kMapThreads, 0, stream>>>(y, a, b, count);
  });
  check(cudaGetLastError());
}
template <class T>
void scale(T* y, const T* x, float factor, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 1>{{x}}, count, Scale{factor}, stream);
}
void scale(float* y, const float* x, const double* factor, std::int64_t count,
           cudaStream_t stream) {
  map(y, Inputs<float, 1>{{x}}, count, ScaleBy{factor}, stream);
}
template <class T>
void clamp_forward(T* y, const T* x, float bound, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 1>{{x}}, count, Clamp{bound}, stream);
}
template <class T>
void clamp_backward(T* dx, const T* dy, const T* x, float bound, std::int64_t count,
                    cudaStream_t stream) {
  map(dx, Inputs<T, 2>{{dy, x}}, count, ClampBackward{bound}, stream);
}
template <class To, class From>
void convert(To* y, const From* x, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<From, 1>{{x}}, count, Same{}, stream);
}
template <class T>
void fill(T* y, double value, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  with_width<kWide<T>>(aligned(y), [&]<int N>() {
    const auto blocks = static_cast<unsigned>(ceil_div(count, std::int64_t{kMapThreads} * N));
    fill_kernel<N><<<blocks, kMapThreads, 0, stream>>>(y, static_cast<float>(value), count);
  });
  check(cudaGetLastError());
}
#define INSTANTIATE(T)                                                                     \
  template void add(T*, const T*, const T*, std::int64_t, cudaStream_t);                   \
  template void scale(T*, const T*, float, std::int64_t, cudaStream_t);                    \
  template void clamp_forward(T*, const T*, float, std::int64_t, cudaStream_t);            \
  template void clamp_backward(T*, const T*, const T*, float, std::int64_t, cudaStream_t); \
  template void fill(T*, double, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
template void add(bf16*, const bf16*, const float*, std::int64_t, cudaStream_t);
template void add(fp16*, const fp16*, const float*, std::int64_t, cudaStream_t);
template void add(float*, const float*, const bf16*, std::int64_t, cudaStream_t);
template void add(float*, const float*, const fp16*, std::int64_t, cudaStream_t);
template void convert(bf16*, const float*, std::int64_t, cudaStream_t);
template void convert(fp16*, const float*, std::int64_t, cudaStream_t);
template void convert(float*, const bf16*, std::int64_t, cudaStream_t);
template void convert(float*, const fp16*, std::int64_t, cudaStream_t);
template void convert(bf16*, const __half*, std::int64_t, cudaStream_t);
template void convert(__half*, const bf16*, std::int64_t, cudaStream_t);

}  // namespace mt::cuda
