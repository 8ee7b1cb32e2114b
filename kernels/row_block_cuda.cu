#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/row_block.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// An element of the narrow matrix a thread; f(its number, its place in the wide one).
template <class F>
__global__ __launch_bounds__(kThreads) void each_kernel(std::int64_t count, std::int64_t cols,
                                                        std::int64_t wide_cols, RowBlock block,
                                                        F f) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i < count) f(i, block.place(i, cols, wide_cols));
}

template <class F>
void for_each(std::int64_t rows, std::int64_t cols, std::int64_t wide_cols, const RowBlock& block,
              const F& f, cudaStream_t stream) {
  if (rows * cols == 0) return;
  each_kernel<<<static_cast<unsigned>(ceil_div(rows * cols, std::int64_t{kThreads})), kThreads, 0,
                stream>>>(rows * cols, cols, wide_cols, block, f);
  check(cudaGetLastError());
}

template <class T>
struct Spread {
  T* wide;
  const T* narrow;
  float factor;
  __device__ void operator()(std::int64_t i, std::int64_t place) const {
    wide[place] = static_cast<T>(factor * to_float(narrow[i]));
  }
};

template <class G>
struct Collect {
  G* narrow;
  const float* wide;
  float factor;
  __device__ void operator()(std::int64_t i, std::int64_t place) const {
    narrow[i] = static_cast<G>(to_float(narrow[i]) + factor * wide[place]);
  }
};

}  // namespace

template <class T>
void spread(T* wide, std::int64_t wide_cols, const T* narrow, std::int64_t rows, std::int64_t cols,
            const RowBlock& block, float factor, cudaStream_t stream) {
  for_each(rows, cols, wide_cols, block, Spread<T>{wide, narrow, factor}, stream);
}

template <class G>
void collect(G* narrow, std::int64_t rows, std::int64_t cols, const float* wide,
             std::int64_t wide_cols, const RowBlock& block, float factor, cudaStream_t stream) {
  for_each(rows, cols, wide_cols, block, Collect<G>{narrow, wide, factor}, stream);
}

#define INSTANTIATE(T)                                                                          \
  template void spread(T*, std::int64_t, const T*, std::int64_t, std::int64_t, const RowBlock&, \
                       float, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
#undef INSTANTIATE
#define INSTANTIATE(G)                                                              \
  template void collect(G*, std::int64_t, std::int64_t, const float*, std::int64_t, \
                        const RowBlock&, float, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);

}  // namespace mt::cuda
