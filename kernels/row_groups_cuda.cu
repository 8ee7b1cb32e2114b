// Rows are sorted by their groups, those of a group in the order in which they stand: it is counted
// how many rows of each segment are in each group, sums of these counts say where they go, and a
// warp goes through each segment.  Then a group's rows are added up.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/reduce.cuh"
#include "kernels/row_groups.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kEach = 8;              // columns of a lane
constexpr int kColumns = 32 * kEach;  // of a block
constexpr int kScanThreads = 1024;
constexpr std::int64_t kLeastSegment = 1024, kMostSegments = 256;
constexpr std::int64_t kMostCounts = 1LL << 24;  // of a part, but for one of each group

// Sorted: where rows go.
struct Sorted {
  std::int64_t segments, segment;  // segment: rows of one
  std::int32_t* counts;            // [parts, groups, segments]; in the end, where each one ends
  std::int32_t* order;             // rows, [parts, rows]

  Sorted(const RowGroups& p, void* work)
      : segments(std::clamp<std::int64_t>(std::min(p.rows / kLeastSegment, kMostCounts / p.groups),
                                          1, kMostSegments)),
        segment(ceil_div(p.rows, segments)),
        counts(static_cast<std::int32_t*>(work)),
        order(counts + p.parts * p.groups * segments) {}
  std::int64_t counts_of(const RowGroups& p) const { return p.parts * p.groups * segments; }

  __device__ std::int32_t& count(const RowGroups& p, std::int64_t part, std::int64_t group,
                                 std::int64_t of_segment) const {
    return counts[(part * p.groups + group) * segments + of_segment];
  }
};

__global__ __launch_bounds__(kThreads) void count_kernel(RowGroups p, Sorted sorted) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= p.parts * p.rows) return;
  atomicAdd(&sorted.count(p, i / p.rows, p.found[i], i % p.rows / sorted.segment), 1);
}

// One block a part: of its counts, what stands before each.
__global__ __launch_bounds__(kScanThreads) void begins_kernel(Sorted sorted, std::int64_t count) {
  __shared__ std::int32_t of_thread[kScanThreads];
  std::int32_t* const counts = sorted.counts + blockIdx.x * count;
  const std::int64_t each = ceil_div(count, std::int64_t{kScanThreads}),
                     first = min(count, threadIdx.x * each), last = min(count, first + each);
  std::int32_t sum = 0;
  for (std::int64_t i = first; i < last; ++i) sum += counts[i];
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int32_t before = 0;
    for (std::int32_t& one : of_thread) {
      const std::int32_t here = one;
      one = before;
      before += here;
    }
  }
  __syncthreads();
  sum = of_thread[threadIdx.x];
  for (std::int64_t i = first; i < last; ++i) {
    const std::int32_t here = counts[i];
    counts[i] = sum;
    sum += here;
  }
}

// One warp a part and segment.
__global__ __launch_bounds__(kThreads) void sort_kernel(RowGroups p, Sorted sorted) {
  const std::int64_t number = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32,
                     part = number / sorted.segments, segment = number % sorted.segments,
                     begin = segment * sorted.segment, end = min(p.rows, begin + sorted.segment);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (part >= p.parts) return;
  for (std::int64_t first = begin; first < end; first += 32) {
    const std::int64_t row = first + lane;
    const int group = row < end ? p.found[part * p.rows + row] : -1;
    const unsigned alike = __match_any_sync(0xffffffff, group);
    const int leader = __ffs(static_cast<int>(alike)) - 1;
    std::int32_t place = 0;
    if (lane == leader && group >= 0) {
      std::int32_t& next = sorted.count(p, part, group, segment);
      place = next;
      next = place + __popc(alike);
    }
    __syncwarp();  // the next rows' places are read behind this
    place = __shfl_sync(0xffffffff, place, leader) + __popc(alike & ((1U << lane) - 1));
    if (group >= 0) sorted.order[part * p.rows + place] = static_cast<std::int32_t>(row);
  }
}

// One block a group, part and kColumns columns.  Its warps take the group's rows by turns; then
// their sums are added in the order of warps.
__global__ __launch_bounds__(kThreads) void sums_kernel(double* sums, std::int32_t* sizes,
                                                        RowGroups p, Sorted sorted) {
  __shared__ double of_warp[kWarps][kColumns];
  const std::int64_t of_all = blockIdx.x, part = of_all / p.groups, group = of_all % p.groups,
                     first = std::int64_t{blockIdx.y} * kColumns;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            columns = static_cast<int>(min(std::int64_t{kColumns}, p.width - first));
  const std::int64_t begin = group > 0 ? sorted.count(p, part, group - 1, sorted.segments - 1) : 0,
                     end = sorted.count(p, part, group, sorted.segments - 1);
  if (begin == end) return;
  const float* const x = p.x + part * p.width + first;
  double sum[kEach] = {};
#pragma unroll 4
  for (std::int64_t i = begin + warp; i < end; i += kWarps) {
    const std::int64_t row = sorted.order[part * p.rows + i];
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if (32 * e + lane < columns)
        sum[e] += static_cast<double>(x[row * p.parts * p.width + 32 * e + lane]);
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) of_warp[warp][32 * e + lane] = sum[e];
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.y == 0) sizes[of_all] += static_cast<std::int32_t>(end - begin);
  const int column = static_cast<int>(threadIdx.x);
  if (column >= columns) return;
  double all = 0;
  for (int w = 0; w < kWarps; ++w) all += of_warp[w][column];
  sums[of_all * p.width + first + column] += all;
}
static_assert(kThreads == kColumns, "a thread writes a column");

__global__ __launch_bounds__(kThreads) void means_kernel(float* centres, const double* sums,
                                                         const std::int32_t* sizes,
                                                         std::int64_t count, std::int64_t width) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  if (const std::int32_t size = sizes[i / width]; size > 0)
    centres[i] = static_cast<float>(sums[i] / static_cast<double>(size));
}

// One warp a row.
__global__ __launch_bounds__(kThreads) void residuals_kernel(float* y, const float* centres,
                                                             RowGroups p) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (i >= p.rows) return;
  const float* const centre = centres + p.found[i] * p.width;
  for (std::int64_t c = threadIdx.x % 32; c < p.width; c += 32)
    y[i * p.width + c] = p.x[i * p.width + c] - centre[c];
}

// A thread writes a number.
__global__ __launch_bounds__(kThreads) void centres_kernel(float* y, const float* centres,
                                                           RowGroups p) {
  const std::int64_t at = blockIdx.x * std::int64_t{kThreads} + threadIdx.x,
                     columns = p.parts * p.width, i = at / columns, column = at % columns,
                     part = column / p.width;
  if (i >= p.rows) return;
  y[at] = centres[(part * p.groups + p.found[part * p.rows + i]) * p.width + column % p.width];
}

// Too.
__global__ __launch_bounds__(kThreads) void codes_kernel(std::uint8_t* y, RowGroups p) {
  const std::int64_t at = blockIdx.x * std::int64_t{kThreads} + threadIdx.x, i = at / p.parts;
  if (i < p.rows) y[at] = static_cast<std::uint8_t>(p.found[at % p.parts * p.rows + i]);
}

}  // namespace

std::size_t add_to_groups_work(const RowGroups& p) {
  if (p.groups == 0) return 0;
  const Sorted sorted(p, nullptr);
  return static_cast<std::size_t>(sorted.counts_of(p) + p.parts * p.rows) * sizeof(std::int32_t);
}

void add_to_groups(double* sums, std::int32_t* sizes, const RowGroups& p, void* work,
                   cudaStream_t stream) {
  if (p.groups == 0 || p.rows == 0) return;
  const Sorted sorted(p, work);
  check(cudaMemsetAsync(sorted.counts, 0,
                        static_cast<std::size_t>(sorted.counts_of(p)) * sizeof(std::int32_t),
                        stream));
  const auto blocks = [](std::int64_t count, std::int64_t of_block) {
    return static_cast<unsigned>(ceil_div(count, of_block));
  };
  count_kernel<<<blocks(p.parts * p.rows, kThreads), kThreads, 0, stream>>>(p, sorted);
  begins_kernel<<<static_cast<unsigned>(p.parts), kScanThreads, 0, stream>>>(
      sorted, p.groups * sorted.segments);
  sort_kernel<<<blocks(p.parts * sorted.segments, kWarps), kThreads, 0, stream>>>(p, sorted);
  const dim3 grid(static_cast<unsigned>(p.parts * p.groups), blocks(p.width, kColumns));
  sums_kernel<<<grid, kThreads, 0, stream>>>(sums, sizes, p, sorted);
  check(cudaGetLastError());
}

void group_means(float* centres, const double* sums, const std::int32_t* sizes, std::int64_t groups,
                 std::int64_t width, cudaStream_t stream) {
  const std::int64_t count = groups * width;
  if (count == 0) return;
  means_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads})), kThreads, 0,
                 stream>>>(centres, sums, sizes, count, width);
  check(cudaGetLastError());
}

void row_residuals(float* y, const float* centres, const RowGroups& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  residuals_kernel<<<static_cast<unsigned>(ceil_div(p.rows, std::int64_t{kWarps})), kThreads, 0,
                     stream>>>(y, centres, p);
  check(cudaGetLastError());
}

void rows_of_centres(float* y, const float* centres, const RowGroups& p, cudaStream_t stream) {
  const std::int64_t count = p.rows * p.parts * p.width;
  if (count == 0) return;
  centres_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads})), kThreads, 0,
                   stream>>>(y, centres, p);
  check(cudaGetLastError());
}

void row_codes(std::uint8_t* y, const RowGroups& p, cudaStream_t stream) {
  const std::int64_t count = p.rows * p.parts;
  if (count == 0) return;
  codes_kernel<<<static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads})), kThreads, 0,
                 stream>>>(y, p);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
