#include "kernels/hidden_loss.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

template <class X>  // one block a row
__global__ __launch_bounds__(kThreads) void hidden_loss_kernel(float* loss, X* dx, const X* x,
                                                               const X* y, const float* weight,
                                                               std::int64_t cols, HiddenLoss kind) {
  __shared__ float shared[4][kThreads / 32];
  const std::int64_t first = blockIdx.x * cols;
  float xx = 0, yy = 0, xy = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < cols; c += kThreads) {
    const float own = to_float(x[first + c]), its = to_float(y[first + c]), apart = own - its;
    xx += own * own;
    yy += its * its;
    xy += own * its;
    squares += apart * apart;
  }
  const float norm = fmaxf(1e-8F, sqrtf(over_block(xx, shared[0]))),
              its_norm = fmaxf(1e-8F, sqrtf(over_block(yy, shared[1]))),
              cosine = over_block(xy, shared[2]) / (norm * its_norm),
              mean = over_block(squares, shared[3]) / static_cast<float>(cols);
  const bool squared = kind == HiddenLoss::squared;
  if (threadIdx.x == 0) loss[blockIdx.x] = squared ? mean : 1 - cosine;
  if (!dx) return;
  const float by = weight[blockIdx.x];
  for (std::int64_t c = threadIdx.x; c < cols; c += kThreads) {
    const float own = to_float(x[first + c]), its = to_float(y[first + c]);
    const float slope = squared ? 2 / static_cast<float>(cols) * (own - its)
                                : (cosine * own / norm - its / its_norm) / norm;
    dx[first + c] = static_cast<X>(to_float(dx[first + c]) + by * slope);
  }
}

}  // namespace

template <class X>
void hidden_loss(float* loss, X* dx, const X* x, const X* y, const float* weight, std::int64_t rows,
                 std::int64_t cols, HiddenLoss kind, cudaStream_t stream) {
  if (rows == 0) return;
  hidden_loss_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(loss, dx, x, y, weight,
                                                                           cols, kind);
  check(cudaGetLastError());
}

#define INSTANTIATE(X)                                                                  \
  template void hidden_loss(float*, X*, const X*, const X*, const float*, std::int64_t, \
                            std::int64_t, HiddenLoss, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
