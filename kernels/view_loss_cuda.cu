#include "kernels/cuda_check.h"
#include "kernels/reduce.cuh"
#include "kernels/view_loss.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

struct Most {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// log sum_k exp(of(k)) over a block's row.
template <class Of>
__device__ float log_sum_exp(std::int64_t cols, float* shared, const Of& of) {
  float most = -INFINITY, sum = 0;
  for (std::int64_t k = threadIdx.x; k < cols; k += kThreads) most = fmaxf(most, of(k));
  most = over_block(most, shared, Most());
  __syncthreads();
  for (std::int64_t k = threadIdx.x; k < cols; k += kThreads) sum += expf(of(k) - most);
  sum = over_block(sum, shared);
  __syncthreads();
  return most + logf(sum);
}

template <class T>  // one block a row
__global__ __launch_bounds__(kThreads) void teacher_kernel(T* __restrict__ t,
                                                           const float* __restrict__ center,
                                                           const float* __restrict__ sharpness,
                                                           std::int64_t cols) {
  __shared__ float shared[kThreads / 32];
  t += blockIdx.x * cols;
  const float sharp = sharpness[blockIdx.x];
  const auto of = [&](std::int64_t k) { return (static_cast<float>(t[k]) - center[k]) * sharp; };
  const float all = log_sum_exp(cols, shared, of);
  for (std::int64_t k = threadIdx.x; k < cols; k += kThreads)
    t[k] = static_cast<T>(expf(of(k) - all));
}

template <class T>  // one block a row
__global__ __launch_bounds__(kThreads) void student_kernel(float* __restrict__ loss,
                                                           T* __restrict__ s,
                                                           const T* __restrict__ p,
                                                           const float* __restrict__ row_weight,
                                                           Views views) {
  __shared__ float shared[kThreads / 32];
  const std::int64_t r = blockIdx.x, cols = views.cols, first = 2 * views.image_of(r);
  const float factor = 1 / kStudentTemperature, pairs = static_cast<float>(2 * (views.others + 1));
  const float with_first = r != first ? 1.F : 0.F, with_second = r != first + 1 ? 1.F : 0.F;
  s += r * cols;
  p += first * cols;
  const float all =
      log_sum_exp(cols, shared, [&](std::int64_t k) { return static_cast<float>(s[k]) * factor; });
  const float by = row_weight[r] * factor / pairs;
  float sum = 0;
  for (std::int64_t k = threadIdx.x; k < cols; k += kThreads) {
    const float taught =
        with_first * static_cast<float>(p[k]) + with_second * static_cast<float>(p[cols + k]);
    const float log_said = static_cast<float>(s[k]) * factor - all;
    sum -= taught * log_said;
    s[k] = static_cast<T>(by * ((with_first + with_second) * expf(log_said) - taught));
  }
  sum = over_block(sum, shared);
  if (threadIdx.x == 0) loss[r] = sum / pairs;
}

}  // namespace

template <class T>
void view_loss(float* loss, T* s, T* t, const float* center, const float* sharpness,
               const float* row_weight, const Views& views, cudaStream_t stream) {
  if (views.images == 0) return;
  teacher_kernel<<<static_cast<unsigned>(2 * views.images), kThreads, 0, stream>>>(
      t, center, sharpness, views.cols);
  student_kernel<<<static_cast<unsigned>(views.rows()), kThreads, 0, stream>>>(loss, s, t,
                                                                               row_weight, views);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                            \
  template void view_loss(float*, T*, T*, const float*, const float*, const float*, const Views&, \
                          cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
