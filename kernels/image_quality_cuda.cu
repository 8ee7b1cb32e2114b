#include "kernels/cuda_check.h"
#include "kernels/image_quality.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

struct Least {
  __device__ float operator()(float a, float b) const { return fminf(a, b); }
};
struct Most {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class X>  // one block an image
__global__ __launch_bounds__(kThreads) void range_kernel(float* least, float* most, const X* x,
                                                         const float* painted,
                                                         PatchedImages shape) {
  __shared__ float shared[2][kThreads / 32];
  const std::int64_t width = shape.patch_width(), pixels = shape.patches() * width;
  x += blockIdx.x * pixels;
  painted += blockIdx.x * shape.patches();
  float low = INFINITY, high = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < pixels; i += kThreads) {
    const float u = painted[i / width] != 0 ? to_float(x[i]) : 0;
    low = fminf(low, u);
    high = fmaxf(high, u);
  }
  low = over_block(low, shared[0], Least());
  high = over_block(high, shared[1], Most());
  if (threadIdx.x != 0) return;
  least[blockIdx.x] = low;
  most[blockIdx.x] = high;
}

template <class X>  // one block an image
__global__ __launch_bounds__(kThreads) void similarity_kernel(float* similar, const X* x,
                                                              const float* t, const float* painted,
                                                              PatchedImages shape,
                                                              SsimWeights of_window) {
  __shared__ float shared[kThreads / 32];
  float weights[kSsimWindow];
  for (int i = 0; i < kSsimWindow; ++i) weights[i] = static_cast<float>(of_window.of[i]);
  const float *const least = similar + shape.images, *const most = least + shape.images;
  float low = INFINITY, high = -INFINITY;
  for (std::int64_t i = 0; i < shape.images; ++i) {
    low = fminf(low, least[i]);
    high = fmaxf(high, most[i]);
  }
  const float range = (high > 128 ? 255.F : 1.F) + (low < -0.5F ? 1.F : 0.F);
  const float c1 = 0.01F * range * (0.01F * range), c2 = 0.03F * range * (0.03F * range);
  const int patch = static_cast<int>(shape.patch), patches = static_cast<int>(shape.width) / patch;
  const int columns = static_cast<int>(shape.width - kSsimWindow) + 1;
  const int windows = (static_cast<int>(shape.height - kSsimWindow) + 1) * columns * 3;
  x += blockIdx.x * shape.patches() * shape.patch_width();
  t += blockIdx.x * shape.patches() * shape.patch_width();
  painted += blockIdx.x * shape.patches();
  float sum = 0;
  for (int w = static_cast<int>(threadIdx.x); w < windows; w += kThreads) {
    const int color = w % 3, left = w / 3 % columns, top = w / 3 / columns;
    float u1 = 0, v1 = 0, uu = 0, vv = 0, uv = 0;
    for (int i = 0; i < kSsimWindow; ++i)
      for (int j = 0; j < kSsimWindow; ++j) {
        const int row = top + i, column = left + j;
        const int at = row / patch * patches + column / patch;
        if (painted[at] == 0) continue;
        const int pixel = ((at * patch + row % patch) * patch + column % patch) * 3 + color;
        const float weight = weights[i] * weights[j];
        const float a = to_float(x[pixel]), b = t[pixel];
        u1 += weight * a;
        v1 += weight * b;
        uu += weight * a * a;
        vv += weight * b * b;
        uv += weight * a * b;
      }
    const float of_structure = 2 * (uv - u1 * v1) + c2, spread = uu - u1 * u1 + vv - v1 * v1 + c2;
    sum += (2 * u1 * v1 + c1) * of_structure / ((u1 * u1 + v1 * v1 + c1) * spread);
  }
  sum = over_block(sum, shared);
  if (threadIdx.x == 0) similar[blockIdx.x] = sum / static_cast<float>(windows);
}

__global__ void decibels_kernel(double* x) {
  if (*x != 0) *x = -10 * log10(*x);
}

}  // namespace

template <class X>
void structural_similarity(float* similar, const X* x, const float* t, const float* painted,
                           const PatchedImages& shape, cudaStream_t stream) {
  if (shape.images == 0) return;
  const auto blocks = static_cast<unsigned>(shape.images);
  float* const least = similar + shape.images;
  range_kernel<<<blocks, kThreads, 0, stream>>>(least, least + shape.images, x, painted, shape);
  similarity_kernel<<<blocks, kThreads, 0, stream>>>(similar, x, t, painted, shape, SsimWeights());
  check(cudaGetLastError());
}

void to_decibels(double* x, cudaStream_t stream) {
  decibels_kernel<<<1, 1, 0, stream>>>(x);
  check(cudaGetLastError());
}

#define INSTANTIATE(X)                                                              \
  template void structural_similarity(float*, const X*, const float*, const float*, \
                                      const PatchedImages&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
