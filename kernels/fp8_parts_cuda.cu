#include "kernels/fp8_parts.h"

#include <cuda_fp8.h>

#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kSide = 64;  // of a tile that is transposed

// The bits of |x| are in the numbers' order, and NaN's beyond them.
__device__ std::uint32_t size_of(float x) { return __float_as_uint(x) & 0x7fffffff; }

__device__ std::uint8_t code_of(float x, Fp8Format format) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE,
                               format == Fp8Format::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

// The largest of some lanes of a warp, which all call this.
__device__ std::uint32_t largest_of(unsigned lanes, std::uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(lanes, x);
#else
  std::uint32_t largest = 0;
  for (unsigned left = lanes; left != 0; left &= left - 1)
    largest = max(largest, __shfl_sync(lanes, x, __ffs(static_cast<int>(left)) - 1));
  return largest;
#endif
}

// The square that an element of a part is in.
template <class T>
__device__ std::int64_t square_of(const Fp8Part<T>& part, std::int64_t i) {
  const std::int64_t row = (part.begin + i) / part.cols, col = (part.begin + i) % part.cols;
  return row / kFp8Block * fp8_blocks(part.cols) + col / kFp8Block;
}

// A warp has elements that lie together, mostly of one square.
template <class T>
__global__ __launch_bounds__(kThreads) void squares_kernel(std::uint32_t* most,
                                                           const Fp8Part<T> part) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t first = blockIdx.x * std::int64_t{kThreads} + threadIdx.x / 32 * 32;
       first < part.count; first += step) {
    const std::int64_t i = first + threadIdx.x % 32;
    const bool is_there = i < part.count;
    const std::int64_t square = square_of(part, is_there ? i : part.count - 1);
    const std::uint32_t size = is_there ? size_of(to_float(part.x[i])) : 0;
    const unsigned same = __match_any_sync(0xffffffff, square);
    const std::uint32_t largest = largest_of(same, size);
    if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(same)) - 1 &&
        largest > *static_cast<volatile std::uint32_t*>(most + square))
      atomicMax(most + square, largest);  // in whatever order
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void cast_squares_kernel(std::uint8_t* codes,
                                                                const Fp8Part<T> part,
                                                                const float* amax) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < part.count;
       i += step)
    codes[i] =
        code_of(to_float(part.x[i]) * fp8_block_scale(amax[square_of(part, i)]), Fp8Format::e4m3);
}

template <class T>
__global__ __launch_bounds__(kThreads) void cast_kernel(std::uint8_t* codes, std::uint32_t* most,
                                                        const T* x, const float* scale,
                                                        std::int64_t count, Fp8Format format) {
  __shared__ std::uint32_t shared[kThreads / 32];
  const float s = *scale;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  std::uint32_t largest = 0;
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count; i += step) {
    const float number = to_float(x[i]);
    largest = max(largest, size_of(number));
    codes[i] = code_of(number * s, format);
  }
  if (!most) return;
  largest = over_block(largest, shared, [](std::uint32_t a, std::uint32_t b) { return max(a, b); });
  if (threadIdx.x == 0) atomicMax(most, largest);
}

__global__ __launch_bounds__(kThreads) void transpose_kernel(std::uint8_t* y, const std::uint8_t* x,
                                                             std::int64_t rows, std::int64_t cols) {
  __shared__ std::uint8_t tile[kSide][kSide + 4];
  const std::int64_t row = blockIdx.y * std::int64_t{kSide}, col = blockIdx.x * std::int64_t{kSide};
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += kThreads) {
    const int r = i / kSide, c = i % kSide;
    if (row + r < rows && col + c < cols) tile[r][c] = x[(row + r) * cols + col + c];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += kThreads) {
    const int c = i / kSide, r = i % kSide;
    if (row + r < rows && col + c < cols) y[(col + c) * rows + row + r] = tile[r][c];
  }
}

// inverse: [blocks of the summed axis, others].  Squares lie at
// block * by_block + other / 128 * by_other in amax.
__global__ __launch_bounds__(kThreads) void inverses_kernel(float* inverse, const float* amax,
                                                            std::int64_t blocks,
                                                            std::int64_t others,
                                                            std::int64_t by_block,
                                                            std::int64_t by_other) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= blocks * others) return;
  const std::int64_t block = i / others, other = i % others;
  inverse[i] = 1.0F / fp8_block_scale(amax[block * by_block + other / kFp8Block * by_other]);
}

unsigned blocks_of(std::int64_t count) {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t blocks = ceil_div(count, std::int64_t{kThreads});
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

}  // namespace

template <class T>
void fp8_part_squares(float* amax, const Fp8Part<T>& part, cudaStream_t stream) {
  if (part.count == 0) return;
  squares_kernel<<<blocks_of(part.count), kThreads, 0, stream>>>(
      reinterpret_cast<std::uint32_t*>(amax), part);
  check(cudaGetLastError());
}

template <class T>
void fp8_part_cast_squares(std::uint8_t* codes, const Fp8Part<T>& part, const float* amax,
                           cudaStream_t stream) {
  if (part.count == 0) return;
  cast_squares_kernel<<<blocks_of(part.count), kThreads, 0, stream>>>(codes, part, amax);
  check(cudaGetLastError());
}

template <class T>
void fp8_part_cast(std::uint8_t* codes, float* amax, const T* x, const float* scale,
                   std::int64_t count, Fp8Format format, cudaStream_t stream) {
  if (count == 0) return;
  cast_kernel<<<blocks_of(count), kThreads, 0, stream>>>(
      codes, reinterpret_cast<std::uint32_t*>(amax), x, scale, count, format);
  check(cudaGetLastError());
}

void fp8_transpose(std::uint8_t* y, const std::uint8_t* x, std::int64_t rows, std::int64_t cols,
                   cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  const dim3 tiles(static_cast<unsigned>(ceil_div(cols, std::int64_t{kSide})),
                   static_cast<unsigned>(ceil_div(rows, std::int64_t{kSide})));
  transpose_kernel<<<tiles, kThreads, 0, stream>>>(y, x, rows, cols);
  check(cudaGetLastError());
}

void fp8_square_inverses(float* inverse, float* transposed, const float* amax, std::int64_t rows,
                         std::int64_t cols, cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  const std::int64_t high = fp8_blocks(rows), across = fp8_blocks(cols);
  const auto fill = [&](float* to, std::int64_t blocks, std::int64_t others, std::int64_t by_block,
                        std::int64_t by_other) {
    inverses_kernel<<<static_cast<unsigned>(ceil_div(blocks * others, std::int64_t{kThreads})),
                      kThreads, 0, stream>>>(to, amax, blocks, others, by_block, by_other);
    check(cudaGetLastError());
  };
  fill(inverse, across, rows, 1, across);
  fill(transposed, high, cols, across, 1);
}

#define INSTANTIATE(T)                                                                     \
  template void fp8_part_squares(float*, const Fp8Part<T>&, cudaStream_t);                 \
  template void fp8_part_cast_squares(std::uint8_t*, const Fp8Part<T>&, const float*,      \
                                      cudaStream_t);                                       \
  template void fp8_part_cast(std::uint8_t*, float*, const T*, const float*, std::int64_t, \
                              Fp8Format, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
