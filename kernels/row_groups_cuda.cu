#include "kernels/cuda_check.h"
#include "kernels/reduce.cuh"
#include "kernels/row_groups.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kEach = 8;              // columns of a lane
constexpr int kColumns = 32 * kEach;  // of a block
constexpr int kAhead = 8;             // numbers of groups on their way at once

// One block a group, part and kColumns columns.  Its warps look through all rows by turns and each
// adds up those of the group; then their sums are added in the order of warps.
__global__ __launch_bounds__(kThreads) void means_kernel(float* centres, std::int32_t* sizes,
                                                         RowGroups p) {
  __shared__ double of_warp[kWarps][kColumns];
  __shared__ int members_of_warp[kWarps];
  const std::int64_t part = blockIdx.x / p.groups, first = std::int64_t{blockIdx.y} * kColumns;
  const int group = static_cast<int>(blockIdx.x % p.groups),
            lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            columns = static_cast<int>(min(std::int64_t{kColumns}, p.width - first));
  const std::int32_t* const found = p.found + part * p.rows;
  const float* const x = p.x + part * p.width + first;
  double sum[kEach] = {};
  int members = 0;
  for (std::int64_t begin = warp * 32; begin < p.rows; begin += std::int64_t{kThreads} * kAhead) {
    std::int32_t of[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const std::int64_t row = begin + a * kThreads + lane;
      of[a] = row < p.rows ? found[row] : -1;
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      unsigned mine = __ballot_sync(0xffffffff, of[a] == group);
      members += __popc(mine);
      for (; mine != 0; mine &= mine - 1) {
        const std::int64_t row = begin + a * kThreads + __ffs(static_cast<int>(mine)) - 1;
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          if (32 * e + lane < columns)
            sum[e] += static_cast<double>(x[row * p.parts * p.width + 32 * e + lane]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) of_warp[warp][32 * e + lane] = sum[e];
  if (lane == 0) members_of_warp[warp] = members;
  __syncthreads();
  members = 0;
  for (int w = 0; w < kWarps; ++w) members += members_of_warp[w];
  if (threadIdx.x == 0 && blockIdx.y == 0) sizes[part * p.groups + group] = members;
  const int column = static_cast<int>(threadIdx.x);
  if (members == 0 || column >= columns) return;
  double all = 0;
  for (int w = 0; w < kWarps; ++w) all += of_warp[w][column];
  centres[(part * p.groups + group) * p.width + first + column] =
      static_cast<float>(all / static_cast<double>(members));
}
static_assert(kThreads == kColumns, "a thread writes a column");

// One warp a row.
__global__ __launch_bounds__(kThreads) void residuals_kernel(float* y, const float* centres,
                                                             RowGroups p) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (i >= p.rows) return;
  const float* const centre = centres + p.found[i] * p.width;
  for (std::int64_t c = threadIdx.x % 32; c < p.width; c += 32)
    y[i * p.width + c] = p.x[i * p.width + c] - centre[c];
}

}  // namespace

void group_means(float* centres, std::int32_t* sizes, const RowGroups& p, cudaStream_t stream) {
  if (p.groups == 0) return;
  const dim3 blocks(static_cast<unsigned>(p.parts * p.groups),
                    static_cast<unsigned>(ceil_div(p.width, std::int64_t{kColumns})));
  means_kernel<<<blocks, kThreads, 0, stream>>>(centres, sizes, p);
  check(cudaGetLastError());
}

void row_residuals(float* y, const float* centres, const RowGroups& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  residuals_kernel<<<static_cast<unsigned>(ceil_div(p.rows, std::int64_t{kWarps})), kThreads, 0,
                     stream>>>(y, centres, p);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
