#include "kernels/cuda_check.h"
#include "kernels/nearest_rows.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// One warp a row.
__global__ __launch_bounds__(kThreads) void half_squares_kernel(float* half, const float* c,
                                                                std::int64_t count,
                                                                std::int64_t columns) {
  const std::int64_t j = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (j >= count) return;
  float sum = 0;
  for (std::int64_t i = threadIdx.x % 32; i < columns; i += 32)
    sum += c[j * columns + i] * c[j * columns + i];
  sum = over_lanes(sum);
  if (threadIdx.x % 32 == 0) half[j] = sum / 2;
}

struct Close {
  float s;
  std::int32_t number;
};

__device__ Close closer(const Close& a, const Close& b) {
  return b.s > a.s || (b.s == a.s && b.number < a.number) ? b : a;
}

// One block a row.
__global__ __launch_bounds__(kThreads) void of_products_kernel(std::int32_t* found, float* best,
                                                               NearestOfProducts p) {
  __shared__ Close of_warp[kWarps];
  const std::int64_t i = blockIdx.x;
  const float* const row = p.products + i * p.count;
  Close close{best[i], found[i]};
  for (std::int64_t j = threadIdx.x; j < p.count; j += kThreads) {
    const float s = row[j] - p.half_squares[j];
    if (s > close.s) close = {s, static_cast<std::int32_t>(p.first + j)};
  }
  for (int distance = 16; distance > 0; distance /= 2)
    close = closer(close, {__shfl_xor_sync(0xffffffff, close.s, distance),
                           __shfl_xor_sync(0xffffffff, close.number, distance)});
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = close;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) close = closer(close, of_warp[warp]);
  best[i] = close.s;
  found[i] = close.number;
}

constexpr int kTile = 256;    // centres in shared memory
constexpr int kRowsEach = 2;  // of a thread
constexpr int kRowsOfBlock = kThreads * kRowsEach;

// One block a part and kRowsOfBlock rows.  kWidth: the columns of a part, and zeros behind, so
// that they are read four at a time.
template <int kWidth>
__global__ __launch_bounds__(kThreads) void parts_kernel(std::int32_t* found, NearestParts p) {
  __shared__ float4 tile[kTile][kWidth / 4];
  __shared__ float half[kTile];
  const std::int64_t blocks_of_part = ceil_div(p.rows, std::int64_t{kRowsOfBlock}),
                     part = blockIdx.x / blocks_of_part, columns = p.parts * p.width,
                     first = blockIdx.x % blocks_of_part * kRowsOfBlock + threadIdx.x;
  float x[kRowsEach][kWidth], best[kRowsEach];
  std::int32_t nearest[kRowsEach];
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const std::int64_t row = first + r * kThreads;
#pragma unroll
    for (int c = 0; c < kWidth; ++c)
      x[r][c] = c < p.width && row < p.rows ? p.x[row * columns + part * p.width + c] : 0.0f;
    best[r] = -INFINITY;
    nearest[r] = 0;
  }
  for (std::int64_t begin = 0; begin < p.count; begin += kTile) {
    const int count = static_cast<int>(min(std::int64_t{kTile}, p.count - begin));
    const float* const centres = p.centres + (part * p.count + begin) * p.width;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count * kWidth; i += kThreads) {
      const int c = i % kWidth;
      reinterpret_cast<float*>(tile)[i] = c < p.width ? centres[i / kWidth * p.width + c] : 0.0f;
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < count) {
      const float* const centre = reinterpret_cast<const float*>(tile[threadIdx.x]);
      float sum = 0;
      for (int c = 0; c < kWidth; ++c) sum += centre[c] * centre[c];
      half[threadIdx.x] = sum / 2;
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      float s[kRowsEach];
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) s[r] = -half[j];
#pragma unroll
      for (int c = 0; c < kWidth / 4; ++c) {
        const float4 centre = tile[j][c];
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r)
          s[r] += x[r][4 * c] * centre.x + x[r][4 * c + 1] * centre.y + x[r][4 * c + 2] * centre.z +
                  x[r][4 * c + 3] * centre.w;
      }
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r)
        if (s[r] > best[r]) {
          best[r] = s[r];
          nearest[r] = static_cast<std::int32_t>(begin + j);
        }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r)
    if (first + r * kThreads < p.rows) found[part * p.stride + first + r * kThreads] = nearest[r];
}

template <int kWidth>
void parts(std::int32_t* found, const NearestParts& p, cudaStream_t stream) {
  const std::int64_t blocks = ceil_div(p.rows, std::int64_t{kRowsOfBlock}) * p.parts;
  parts_kernel<kWidth><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(found, p);
  check(cudaGetLastError());
}

}  // namespace

void half_squares(float* half, const float* c, std::int64_t count, std::int64_t columns,
                  cudaStream_t stream) {
  if (count == 0) return;
  half_squares_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kWarps})), kThreads, 0,
                        stream>>>(half, c, count, columns);
  check(cudaGetLastError());
}

void nearest_of_products(std::int32_t* found, float* best, const NearestOfProducts& problem,
                         cudaStream_t stream) {
  if (problem.rows == 0) return;
  of_products_kernel<<<static_cast<unsigned>(problem.rows), kThreads, 0, stream>>>(found, best,
                                                                                   problem);
  check(cudaGetLastError());
}

void nearest_parts(std::int32_t* found, const NearestParts& problem, cudaStream_t stream) {
  if (problem.rows == 0) return;
  if (problem.width <= 4) return parts<4>(found, problem, stream);
  if (problem.width <= 8) return parts<8>(found, problem, stream);
  if (problem.width <= 12) return parts<12>(found, problem, stream);
  if (problem.width <= 16) return parts<16>(found, problem, stream);
  if (problem.width <= 24) return parts<24>(found, problem, stream);
  parts<32>(found, problem, stream);
}

}  // namespace mt::cuda
