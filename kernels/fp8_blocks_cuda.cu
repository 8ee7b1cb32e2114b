#include <cuda_fp8.h>

#include "base/error.h"
#include "kernels/fp8_blocks.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

struct Larger {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return max(a, b); }
};

// The bits of |x| are in the numbers' order, and NaN's beyond them.
__device__ std::uint32_t size_of(float x) { return __float_as_uint(x) & 0x7fffffff; }

// --- Casts ---------------------------------------------------------------------------------------

// A block of threads casts a tile of 128 x 128.  A thread has two patches of it, of 4 rows and 8
// columns: half a warp a patch each in 4 rows, so that whole rows are read and written.
constexpr int kSide = static_cast<int>(kFp8Block), kThreads = 256, kWarps = kThreads / 32;
constexpr int kPatches = 2, kHigh = 4, kWide_ = 8, kAcross = kSide / kWide_;
constexpr int kPatchRows = kThreads / kAcross * kHigh;  // from a thread's one patch to its other
static_assert(kPatches * kPatchRows == kSide && kAcross == 16);

// The tile of transposed codes, a row of 128 bytes for each column of x, in words of 4, which lie
// at w ^ 2 (c / 8) % 32 in row c: so the words of a warp's patches lie in banks of their own.
__device__ int word_at(int c, int w) { return c * (kSide / 4) + (w ^ c / kWide_ * 2 % 32); }

__device__ std::uint32_t four_codes(float a, float b, float c, float d) {
  const std::uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const std::uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}

struct Shared {
  std::uint32_t tile[kSide * kSide / 4];
  std::uint32_t of_warp[kWarps][kSide];  // each column's largest among a warp's rows
  float scale[kSide];                    // of columns
  std::uint32_t of_all[kWarps];
};

template <class T>
__global__ __launch_bounds__(kThreads) void cast_kernel(const Fp8BlockCast<T> p) {
  __shared__ alignas(16) Shared shared;
  const int warp = static_cast<int>(threadIdx.x) / 32,
            column = static_cast<int>(threadIdx.x) % kAcross * kWide_;
  const int first = static_cast<int>(threadIdx.x) / kAcross * kHigh;  // row of the first patch
  const std::int64_t tile_row = blockIdx.y * std::int64_t{kSide},
                     tile_col = blockIdx.x * std::int64_t{kSide}, col = tile_col + column;
  const auto row_of = [&](int patch, int i) { return first + patch * kPatchRows + i; };
  const bool across = col < p.cols;
  Pack<T, kWide_> packs[kPatches * kHigh];
#pragma unroll
  for (int patch = 0; patch < kPatches; ++patch)
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
      const std::int64_t row = tile_row + row_of(patch, i);
      packs[patch * kHigh + i] =
          across && row < p.rows ? load<kWide_>(p.x + row * p.cols + col) : Pack<T, kWide_>{};
    }
  float of_square = 0;
  if (p.squares) {
    std::uint32_t largest = 0;
#pragma unroll
    for (const auto& pack : packs)
#pragma unroll
      for (int n = 0; n < kWide_; ++n) largest = max(largest, size_of(pack[n]));
    of_square = fp8_block_scale(__uint_as_float(over_block(largest, shared.of_all, Larger{})));
  }
  if (p.codes) {
#pragma unroll
    for (int patch = 0; patch < kPatches; ++patch)
#pragma unroll
      for (int i = 0; i < kHigh; ++i) {
        const auto& pack = packs[patch * kHigh + i];
        const std::int64_t row = tile_row + row_of(patch, i);
        float scale = of_square;
        if (!p.squares) {
          std::uint32_t largest = 0;
#pragma unroll
          for (int n = 0; n < kWide_; ++n) largest = max(largest, size_of(pack[n]));
          scale = fp8_block_scale(__uint_as_float(over_lanes(largest, kAcross, Larger{})));
        }
        if (row >= p.rows) continue;
        if (column == 0) p.inverse[blockIdx.x * p.rows + row] = 1.0F / scale;
        const uint2 words = make_uint2(
            four_codes(pack[0] * scale, pack[1] * scale, pack[2] * scale, pack[3] * scale),
            four_codes(pack[4] * scale, pack[5] * scale, pack[6] * scale, pack[7] * scale));
        if (across) *reinterpret_cast<uint2*>(p.codes + row * p.cols + col) = words;
      }
  }
  if (!p.transposed) return;
  if (!p.squares) {
#pragma unroll
    for (int n = 0; n < kWide_; ++n) {
      std::uint32_t largest = 0;
#pragma unroll
      for (const auto& pack : packs) largest = max(largest, size_of(pack[n]));
      largest = max(largest, __shfl_xor_sync(0xffffffff, largest, kAcross));
      if (threadIdx.x % 32 < kAcross) shared.of_warp[warp][column + n] = largest;
    }
    __syncthreads();
  }
  if (threadIdx.x < kSide) {
    const int c = static_cast<int>(threadIdx.x);
    float scale = of_square;
    if (!p.squares) {
      std::uint32_t largest = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) largest = max(largest, shared.of_warp[w][c]);
      scale = fp8_block_scale(__uint_as_float(largest));
    }
    shared.scale[c] = scale;
    if (tile_col + c < p.cols)
      p.transposed_inverse[blockIdx.y * p.cols + tile_col + c] = 1.0F / scale;
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kWide_; ++n) {
    const float scale = shared.scale[column + n];
#pragma unroll
    for (int patch = 0; patch < kPatches; ++patch) {
      const auto* const rows = packs + patch * kHigh;
      shared.tile[word_at(column + n, row_of(patch, 0) / 4)] = four_codes(
          rows[0][n] * scale, rows[1][n] * scale, rows[2][n] * scale, rows[3][n] * scale);
    }
  }
  __syncthreads();
  constexpr int kRuns = kSide / 16;  // of 16 bytes in a row
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kRuns; i += kThreads) {
    const int c = i / kRuns, run = i % kRuns;
    const std::int64_t row = tile_row + run * 16;
    if (tile_col + c >= p.cols || row >= p.rows) continue;
    const auto low = *reinterpret_cast<const uint2*>(shared.tile + word_at(c, run * 4)),
               high = *reinterpret_cast<const uint2*>(shared.tile + word_at(c, run * 4 + 2));
    *reinterpret_cast<uint4*>(p.transposed + (tile_col + c) * p.rows + row) =
        make_uint4(low.x, low.y, high.x, high.y);
  }
}

// --- Numbers -------------------------------------------------------------------------------------

constexpr int kNumbers = 8;  // of a thread

__global__ __launch_bounds__(kThreads) void numbers_kernel(bf16* y, const std::uint8_t* codes,
                                                           const float* inverse, std::int64_t count,
                                                           std::int64_t cols, std::int64_t stride) {
  const std::int64_t at = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * kNumbers;
  if (at >= count) return;
  const std::int64_t row = at / cols, col = at % cols;
  const float of_block = inverse[col / kFp8Block * stride + row];
  const auto words = *reinterpret_cast<const uint2*>(codes + at);
  float numbers[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const std::uint32_t word = i < 4 ? words.x : words.y;
    const __half_raw half =
        __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(word >> (i % 4 * 8)), __NV_E4M3);
    numbers[i] = to_float(__half(half)) * of_block;
  }
  store(y + at, numbers);
}

}  // namespace

template <class T>
void fp8_block_cast(const Fp8BlockCast<T>& p, cudaStream_t stream) {
  if (p.rows == 0 || p.cols == 0) return;
  if ((p.transposed && p.rows % kFp8Multiple != 0) || p.cols % kFp8Multiple != 0 ||
      !aligned(p.codes, p.transposed, p.x))
    fail(Exit::internal, "fp8_block_cast: [", p.rows, ", ", p.cols, "], expected multiples of ",
         kFp8Multiple, " at aligned addresses");
  const dim3 tiles(static_cast<unsigned>(fp8_blocks(p.cols)),
                   static_cast<unsigned>(fp8_blocks(p.rows)));
  cast_kernel<<<tiles, kThreads, 0, stream>>>(p);
  check(cudaGetLastError());
}

template void fp8_block_cast(const Fp8BlockCast<float>&, cudaStream_t);
template void fp8_block_cast(const Fp8BlockCast<bf16>&, cudaStream_t);

void fp8_block_numbers(bf16* y, const std::uint8_t* codes, const float* inverse, std::int64_t rows,
                       std::int64_t cols, std::int64_t stride, cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  if (cols % kNumbers != 0 || !aligned(y, codes))
    fail(Exit::internal, "fp8_block_numbers: rows of ", cols, ", expected a multiple of ", kNumbers,
         " at aligned addresses");
  const std::int64_t count = rows * cols;
  numbers_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads * kNumbers})),
                   kThreads, 0, stream>>>(y, codes, inverse, count, cols, stride);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
