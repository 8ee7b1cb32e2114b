#include <cuda_fp8.h>

#include "base/error.h"
#include "kernels/fp8.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// --- The largest ---------------------------------------------------------------------------------

struct Larger {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return max(a, b); }
};

// The bits of |x| are in the numbers' order, and NaN's beyond them.
__device__ std::uint32_t size_of(float x) { return __float_as_uint(x) & 0x7fffffff; }

template <int N, class T>
__global__ __launch_bounds__(kThreads) void amax_kernel(std::uint32_t* most, const T* x,
                                                        std::int64_t count) {
  __shared__ std::uint32_t shared[kThreads / 32];
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * N;
  std::uint32_t largest = 0;
  for (std::int64_t i = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * N; i < count;
       i += step) {
    if (i + N <= count) {
      const auto pack = load<N>(x + i);
#pragma unroll
      for (int n = 0; n < N; ++n) largest = max(largest, size_of(pack[n]));
    } else {
      for (std::int64_t j = i; j < count; ++j) largest = max(largest, size_of(to_float(x[j])));
    }
  }
  largest = over_block(largest, shared, Larger{});
  if (threadIdx.x == 0) atomicMax(most, largest);  // in whatever order
}

__global__ void scale_kernel(float* scale, float* inverse, const float* amax, Fp8Format format) {
  *scale = fp8_scale_of(*amax, format);
  *inverse = 1.0F / *scale;
}

// A thread a scale.
__global__ __launch_bounds__(kThreads) void update_kernel(Fp8Delayed p) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= p.count) return;
  float* const history = p.history + i * p.length;
  float moved = p.amax[i];
  std::uint32_t largest = __float_as_uint(moved);
  for (std::int64_t j = 0; j < p.length; ++j) {
    const float older = history[j];
    history[j] = moved;
    if (!p.most_recent) largest = max(largest, __float_as_uint(moved));
    moved = older;
  }
  p.scale[i] = fp8_delayed_scale(p.scale[i], __uint_as_float(largest), p.margin, p.format);
  p.inverse[i * kFp8InverseStride] = 1.0F / p.scale[i];
  p.amax[i] = 0;
}

// --- Casts ---------------------------------------------------------------------------------------

constexpr int kSide = 64, kPitch = kSide + 4;  // of a block's tile; bytes of a row of it
constexpr int kNumbers = 8, kPacks = kSide / kNumbers, kRun = 16;

// Two numbers' codes, the first in the low byte.
template <Fp8Format kFormat>
__device__ std::uint32_t two_codes(float a, float b) {
  return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE,
                                  kFormat == Fp8Format::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

// A tile of x is read once; its codes go to either place or both, to the other one by way of shared
// memory, so that every thread writes bytes that lie together.
template <Fp8Format kFormat, class T>
__global__ __launch_bounds__(kThreads) void cast_kernel(std::uint8_t* codes,
                                                        std::uint8_t* transposed,
                                                        std::uint32_t* most, const T* x,
                                                        const float* scale, std::int64_t rows,
                                                        std::int64_t cols) {
  __shared__ alignas(4) std::uint8_t tile[kSide * kPitch];
  __shared__ std::uint32_t shared[kThreads / 32];
  const float s = *scale;
  std::uint32_t largest = 0;
  const std::int64_t first_row = blockIdx.y * std::int64_t{kSide},
                     first_col = blockIdx.x * std::int64_t{kSide};
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kPacks; i += kThreads) {
    const int r = i / kPacks, c = i % kPacks * kNumbers;
    if (first_row + r >= rows || first_col + c >= cols) continue;
    const std::int64_t at = (first_row + r) * cols + first_col + c;
    const auto pack = load<kNumbers>(x + at);
#pragma unroll
    for (int n = 0; n < kNumbers; ++n) largest = max(largest, size_of(pack[n]));
    std::uint32_t words[2];
#pragma unroll
    for (int w = 0; w < 2; ++w)
      words[w] = two_codes<kFormat>(pack[4 * w] * s, pack[4 * w + 1] * s) |
                 two_codes<kFormat>(pack[4 * w + 2] * s, pack[4 * w + 3] * s) << 16;
    if (codes) *reinterpret_cast<uint2*>(codes + at) = make_uint2(words[0], words[1]);
    auto* const kept = reinterpret_cast<std::uint32_t*>(tile + r * kPitch + c);
    kept[0] = words[0];
    kept[1] = words[1];
  }
  if (most) {
    largest = over_block(largest, shared, Larger{});
    if (threadIdx.x == 0 && largest > *static_cast<volatile std::uint32_t*>(most))
      atomicMax(most, largest);
  }
  if (!transposed) return;
  __syncthreads();
  const int c = static_cast<int>(threadIdx.x) / (kSide / kRun),
            r = static_cast<int>(threadIdx.x) % (kSide / kRun) * kRun;
  if (first_row + r >= rows || first_col + c >= cols) return;
  std::uint32_t words[kRun / 4];
#pragma unroll
  for (int w = 0; w < kRun / 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int b = 0; b < 4; ++b)
      words[w] |= static_cast<std::uint32_t>(tile[(r + 4 * w + b) * kPitch + c]) << (8 * b);
  }
  *reinterpret_cast<uint4*>(transposed + (first_col + c) * rows + first_row + r) =
      make_uint4(words[0], words[1], words[2], words[3]);
}
static_assert(kThreads == kSide * kSide / kRun);

}  // namespace

void fp8_update(const Fp8Delayed& scales, cudaStream_t stream) {
  if (scales.count == 0) return;
  update_kernel<<<static_cast<unsigned>(ceil_div(scales.count, std::int64_t{kThreads})), kThreads,
                  0, stream>>>(scales);
  check(cudaGetLastError());
}

template <class T>
void fp8_amax(float* amax, const T* x, std::int64_t count, cudaStream_t stream) {
  check(cudaMemsetAsync(amax, 0, sizeof *amax, stream));
  if (count == 0) return;
  with_width<kWide<T>>(aligned(x), [&]<int N>() {
    constexpr std::int64_t kMostBlocks = 1024;
    const std::int64_t blocks = ceil_div(count, std::int64_t{4} * kThreads * N);
    amax_kernel<N><<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads,
                     0, stream>>>(reinterpret_cast<std::uint32_t*>(amax), x, count);
  });
  check(cudaGetLastError());
}

void fp8_scale(float* scale, float* inverse, const float* amax, Fp8Format format,
               cudaStream_t stream) {
  scale_kernel<<<1, 1, 0, stream>>>(scale, inverse, amax, format);
  check(cudaGetLastError());
}

template <class T>
void fp8_cast(std::uint8_t* codes, std::uint8_t* transposed, float* amax, const T* x,
              const float* scale, std::int64_t rows, std::int64_t cols, Fp8Format format,
              cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  if ((transposed && rows % kFp8Multiple != 0) || cols % kFp8Multiple != 0 ||
      !aligned(codes, transposed, x))
    fail(Exit::internal, "fp8_cast: [", rows, ", ", cols, "], expected multiples of ", kFp8Multiple,
         " at aligned addresses");
  const dim3 tiles(static_cast<unsigned>(ceil_div(cols, std::int64_t{kSide})),
                   static_cast<unsigned>(ceil_div(rows, std::int64_t{kSide})));
  auto* const most = reinterpret_cast<std::uint32_t*>(amax);
  if (format == Fp8Format::e4m3)
    cast_kernel<Fp8Format::e4m3>
        <<<tiles, kThreads, 0, stream>>>(codes, transposed, most, x, scale, rows, cols);
  else
    cast_kernel<Fp8Format::e5m2>
        <<<tiles, kThreads, 0, stream>>>(codes, transposed, most, x, scale, rows, cols);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                 \
  template void fp8_amax(float*, const T*, std::int64_t, cudaStream_t);                \
  template void fp8_cast(std::uint8_t*, std::uint8_t*, float*, const T*, const float*, \
                         std::int64_t, std::int64_t, Fp8Format, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
