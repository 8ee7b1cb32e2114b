// The largest key that is taken is found by its bytes, from the first on (radix select): of the
// keys that begin with the bytes found so far it is counted how many have which next byte.
#include <cfloat>

#include "kernels/cuda_check.h"
#include "kernels/reduce.cuh"
#include "kernels/smallest.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32, kBytes = 256;

// What the threads of a row know: the keys that begin as `prefix` does, where `mask` has ones, are
// still to be told apart, and `needed` of them are taken.
struct Search {
  std::uint64_t prefix, mask;
  std::int64_t needed;
  bool done;
};

// One thread counts through the bytes; then keys up to `prefix` are taken, if it is done.
__device__ void narrow(Search& search, const int* counts, int shift) {
  std::int64_t before = 0;
  int byte = 0;
  for (; before + counts[byte] < search.needed; ++byte) before += counts[byte];
  search.needed -= before;
  search.prefix |= static_cast<std::uint64_t>(byte) << shift;
  search.mask |= std::uint64_t{0xff} << shift;
  search.done = counts[byte] == search.needed;
  if (search.done) search.prefix |= (std::uint64_t{1} << shift) - 1;
}

// One block a row.
__global__ __launch_bounds__(kThreads) void smallest_kernel(std::int32_t* numbers, float* distances,
                                                            SmallestOf p) {
  __shared__ int counts[kBytes], of_warp[kWarps];
  __shared__ Search search;
  const std::int64_t row = blockIdx.x, begin = p.begin(row), length = p.begin(row + 1) - begin;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  numbers += row * p.count;
  distances += row * p.count;
  const std::int64_t rounded = ceil_div(length, std::int64_t{kThreads}) * kThreads;
  if (threadIdx.x == 0)
    search = {length > p.count ? 0 : ~std::uint64_t{0}, 0, p.count, length <= p.count};
  __syncthreads();
  for (int shift = 56; !search.done; shift -= 8) {
    for (int i = static_cast<int>(threadIdx.x); i < kBytes; i += kThreads) counts[i] = 0;
    __syncthreads();
    const std::uint64_t prefix = search.prefix, mask = search.mask;
    for (std::int64_t j = threadIdx.x; j < rounded; j += kThreads) {
      const std::uint64_t key = j < length ? p.key(begin + j, j) : 0;
      const bool is_one = j < length && (key & mask) == prefix;
      const int byte = is_one ? static_cast<int>(key >> shift & 0xff) : -1;
      const unsigned alike = __match_any_sync(0xffffffff, byte);
      if (is_one && lane == __ffs(static_cast<int>(alike)) - 1)
        atomicAdd(&counts[byte], __popc(alike));
    }
    __syncthreads();
    if (threadIdx.x == 0) narrow(search, counts, shift);
    __syncthreads();
  }
  const std::uint64_t limit = search.prefix;
  std::int64_t taken = 0;
  for (std::int64_t j = threadIdx.x; j < rounded; j += kThreads) {
    const bool takes = j < length && p.key(begin + j, j) <= limit;
    const unsigned ones = __ballot_sync(0xffffffff, takes);
    __syncthreads();  // the counts of the round before are read
    if (lane == 0) of_warp[warp] = __popc(ones);
    __syncthreads();
    int all = of_warp[lane], before = lane < warp ? all : 0;
    all = over_lanes(all);
    before = over_lanes(before);
    if (takes) {
      const std::int64_t at = taken + before + __popc(ones & ((1U << lane) - 1));
      numbers[at] = p.number(begin + j, j);
      distances[at] = p.distance(begin + j, j);
    }
    taken += all;
  }
  for (std::int64_t at = taken + threadIdx.x; at < p.count; at += kThreads) {
    numbers[at] = -1;
    distances[at] = FLT_MAX;
  }
}
static_assert(kWarps == 32, "a lane reads the count of a warp");

}  // namespace

void smallest(std::int32_t* numbers, float* distances, const SmallestOf& problem,
              cudaStream_t stream) {
  if (problem.rows == 0 || problem.count == 0) return;
  smallest_kernel<<<static_cast<unsigned>(problem.rows), kThreads, 0, stream>>>(numbers, distances,
                                                                                problem);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
