#include "kernels/map.cuh"
#include "kernels/reduce.cuh"
#include "kernels/row_scale.h"

namespace mt::cuda {
namespace {

constexpr int kRowThreads = 256;

template <class T>  // a block a row
__global__ __launch_bounds__(kRowThreads) void squares_kernel(float* squares, const T* x,
                                                              std::int64_t cols) {
  x += blockIdx.x * cols;
  __shared__ float shared[kRowThreads / 32];
  float total = 0;
  for (std::int64_t c = threadIdx.x; c < cols; c += kRowThreads) {
    const float value = to_float(x[c]);
    total += value * value;
  }
  total = over_block(total, shared);
  if (threadIdx.x == 0) squares[blockIdx.x] = total;
}

template <class T>
__global__ __launch_bounds__(kRowThreads) void scale_kernel(T* y, const T* x, const float* factor,
                                                            std::int64_t cols) {
  const std::int64_t row = blockIdx.x;
  const float by = factor[row];
  for (std::int64_t c = threadIdx.x; c < cols; c += kRowThreads)
    y[row * cols + c] = static_cast<T>(by * to_float(x[row * cols + c]));
}

template <class T>
__global__ __launch_bounds__(kRowThreads) void scale_columns_kernel(T* y, const T* x,
                                                                    const T* factor,
                                                                    std::int64_t cols) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t c = threadIdx.x; c < cols; c += kRowThreads)
    y[row * cols + c] = static_cast<T>(to_float(factor[c]) * to_float(x[row * cols + c]));
}

template <class F>
__global__ __launch_bounds__(kRowThreads) void each_kernel(std::int64_t count, RowBlock block,
                                                           F f) {
  const std::int64_t i = blockIdx.x * std::int64_t{kRowThreads} + threadIdx.x;
  if (i < count) f(i, block.place(i, 1, 1));
}

template <class F>
void for_each(std::int64_t count, const RowBlock& block, const F& f, cudaStream_t stream) {
  if (count == 0) return;
  each_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kRowThreads})), kRowThreads, 0,
                stream>>>(count, block, f);
  check(cudaGetLastError());
}

template <class T>
struct Factors {
  float* factor;
  const T* m;
  const float* squares;
  __device__ void operator()(std::int64_t i, std::int64_t row) const {
    factor[row] = to_float(m[i]) / sqrtf(squares[row]);
  }
};

template <class G>
struct OverNorms {
  G* dm;
  const float *total, *squares;
  __device__ void operator()(std::int64_t i, std::int64_t row) const {
    dm[i] = static_cast<G>(to_float(dm[i]) + total[row] / sqrtf(squares[row]));
  }
};

struct Product {
  __device__ float operator()(const float (&x)[2]) const { return x[0] * x[1]; }
};

}  // namespace

template <class T>
void row_squares(float* squares, const T* x, std::int64_t rows, std::int64_t cols,
                 cudaStream_t stream) {
  if (rows == 0) return;
  squares_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(squares, x, cols);
  check(cudaGetLastError());
}

template <class T>
void row_factors(float* factor, const T* m, const float* squares, std::int64_t count,
                 const RowBlock& block, cudaStream_t stream) {
  for_each(count, block, Factors<T>{factor, m, squares}, stream);
}

template <class T>
void scale_rows(T* y, const T* x, const float* factor, std::int64_t rows, std::int64_t cols,
                cudaStream_t stream) {
  if (rows == 0) return;
  scale_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(y, x, factor, cols);
  check(cudaGetLastError());
}

template <class T>
void scale_columns(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols,
                   cudaStream_t stream) {
  if (rows == 0) return;
  scale_columns_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(y, x, factor, cols);
  check(cudaGetLastError());
}

template <class T>
void multiply(T* y, const T* a, const T* b, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 2>{{a, b}}, count, Product{}, stream);
}

template <class G>
void add_over_norms(G* dm, const float* total, const float* squares, std::int64_t count,
                    const RowBlock& block, cudaStream_t stream) {
  for_each(count, block, OverNorms<G>{dm, total, squares}, stream);
}

#define INSTANTIATE(T)                                                                            \
  template void row_squares(float*, const T*, std::int64_t, std::int64_t, cudaStream_t);          \
  template void row_factors(float*, const T*, const float*, std::int64_t, const RowBlock&,        \
                            cudaStream_t);                                                        \
  template void scale_rows(T*, const T*, const float*, std::int64_t, std::int64_t, cudaStream_t); \
  template void scale_columns(T*, const T*, const T*, std::int64_t, std::int64_t, cudaStream_t);  \
  template void multiply(T*, const T*, const T*, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
template void add_over_norms(float*, const float*, const float*, std::int64_t, const RowBlock&,
                             cudaStream_t);
template void add_over_norms(bf16*, const float*, const float*, std::int64_t, const RowBlock&,
                             cudaStream_t);

}  // namespace mt::cuda
