#include "kernels/embedding.h"

#include <bit>
#include <utility>

#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// --- Forward ------------------------------------------------------------------------------------

template <int N, class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* y, const std::int32_t* ids,
                                                           const T* table, std::int64_t packs,
                                                           std::int64_t packs_per_row,
                                                           bool accumulate) {
  constexpr int kUnroll = 4;
  const std::int64_t begin = blockIdx.x * std::int64_t{kUnroll * kThreads} + threadIdx.x;
  Pack<T, N> from[kUnroll], to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = begin + u * kThreads, row = pack / packs_per_row;
    if (pack >= packs) continue;
    from[u] = load<N>(table + (ids[row] * packs_per_row + (pack - row * packs_per_row)) * N);
    if (accumulate) to[u] = load<N>(y + pack * N);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = begin + u * kThreads;
    if (pack >= packs) continue;
    float sum[N];
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] = accumulate ? to[u][n] + from[u][n] : from[u][n];
    store(y + pack * N, sum);
  }
}

// --- Backward: rows sorted by id ----------------------------------------------------------------

// A stable radix sort by digits of 8 bits, from the lowest: tiles count their digits, one block
// makes places of the counts, tiles move their elements there.
constexpr int kDigits = 256, kTile = 1024;

struct Row {
  std::int32_t id, row;
};

__device__ int digit_of(std::int32_t id, int shift) { return id >> shift & (kDigits - 1); }

__global__ void list_rows_kernel(Row* rows, const std::int32_t* ids, std::int64_t count) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i < count) rows[i] = {ids[i], static_cast<std::int32_t>(i)};
}

// counts: [kDigits, tiles]
__global__ __launch_bounds__(kTile) void count_digits_kernel(std::int32_t* counts, const Row* rows,
                                                             std::int64_t count, int shift) {
  __shared__ int of_digit[kDigits];
  const std::int64_t i = blockIdx.x * std::int64_t{kTile} + threadIdx.x;
  if (threadIdx.x < kDigits) of_digit[threadIdx.x] = 0;
  __syncthreads();
  if (i < count) atomicAdd(&of_digit[digit_of(rows[i].id, shift)], 1);
  __syncthreads();
  if (threadIdx.x < kDigits)
    counts[threadIdx.x * std::int64_t{gridDim.x} + blockIdx.x] = of_digit[threadIdx.x];
}

// Inclusive sums over the warp's lanes.
__device__ int scan_lanes(int x) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(0xffffffff, x, distance);
    if (static_cast<int>(threadIdx.x % 32) >= distance) x += before;
  }
  return x;
}

// Each count becomes the sum of those before it.
__global__ __launch_bounds__(kTile) void scan_kernel(std::int32_t* counts, std::int64_t size) {
  __shared__ int of_warp[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int before = 0;  // of earlier tiles
  for (std::int64_t first = 0; first < size; first += kTile) {
    const std::int64_t i = first + threadIdx.x;
    const int own = i < size ? counts[i] : 0, in_warp = scan_lanes(own);
    if (lane == 31) of_warp[warp] = in_warp;
    __syncthreads();
    if (warp == 0) of_warp[lane] = scan_lanes(of_warp[lane]);
    __syncthreads();
    if (i < size) counts[i] = before + (warp > 0 ? of_warp[warp - 1] : 0) + in_warp - own;
    before += of_warp[31];
    __syncthreads();
  }
}

__global__ __launch_bounds__(kTile) void move_kernel(Row* to, const Row* from,
                                                     const std::int32_t* places, std::int64_t count,
                                                     int shift) {
  __shared__ int of_warp[32][kDigits];  // how many of a digit a warp has, then all before it have
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int d = lane; d < kDigits; d += 32) of_warp[warp][d] = 0;
  __syncwarp();
  const std::int64_t i = blockIdx.x * std::int64_t{kTile} + threadIdx.x;
  const Row row = i < count ? from[i] : Row{};
  const int digit = i < count ? digit_of(row.id, shift) : kDigits;
  const unsigned alike = __match_any_sync(0xffffffff, digit);
  const int rank = __popc(alike & ((1u << lane) - 1));
  if (i < count && rank == 0) of_warp[warp][digit] = __popc(alike);
  __syncthreads();
  if (threadIdx.x < kDigits) {
    int before = 0;
    for (int w = 0; w < 32; ++w) {
      const int own = of_warp[w][threadIdx.x];
      of_warp[w][threadIdx.x] = before;
      before += own;
    }
  }
  __syncthreads();
  if (i < count)
    to[places[digit * std::int64_t{gridDim.x} + blockIdx.x] + of_warp[warp][digit] + rank] = row;
}

// --- Backward: sums of equal ids ----------------------------------------------------------------

// Blocks take ranges of sorted rows.  A run of equal ids that lies in one range goes straight to
// the table.  Of a run over several ranges each leaves a part: `head` where the run began before
// the range, else `tail`; the block of its tail then adds them in order.
constexpr int kRange = 32;

struct Sorted {
  const Row* rows;
  std::int64_t count;
  __device__ bool same(std::int64_t i, std::int64_t j) const {
    return i >= 0 && j < count && rows[i].id == rows[j].id;
  }
};

template <int N>
__device__ void add_to(float* to, const float (&sum)[N]) {
  const auto before = load<N>(to);
  float after[N];
#pragma unroll
  for (int n = 0; n < N; ++n) after[n] = before[n] + sum[n];
  store(to, after);
}

template <int N, class T>
__global__ __launch_bounds__(kThreads) void sum_runs_kernel(float* dtable, float* parts,
                                                            const T* dy, Sorted sorted,
                                                            std::int64_t cols) {
  constexpr int kUnroll = 4;
  const std::int64_t c = (blockIdx.y * std::int64_t{kThreads} + threadIdx.x) * N;
  if (c >= cols) return;
  const std::int64_t begin = blockIdx.x * std::int64_t{kRange};
  const std::int64_t end = min(begin + kRange, sorted.count);
  float *head = parts + blockIdx.x * 2 * cols + c, *tail = head + cols;
  float sum[N] = {};
  bool from_before = sorted.same(begin - 1, begin);
  for (std::int64_t first = begin; first < end; first += kUnroll) {
    Pack<T, N> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u < end) packs[u] = load<N>(dy + sorted.rows[first + u].row * cols + c);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = first + u;
      if (i >= end) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += packs[u][n];
      const bool goes_on = sorted.same(i, i + 1);
      if (goes_on && i + 1 < end) continue;
      if (from_before)
        store(head, sum);
      else if (goes_on)
        store(tail, sum);
      else
        add_to(dtable + sorted.rows[i].id * cols + c, sum);
      from_before = false;
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = 0;
    }
  }
}

template <int N>
__global__ __launch_bounds__(kThreads) void join_runs_kernel(float* dtable, const float* parts,
                                                             Sorted sorted, std::int64_t cols) {
  const std::int64_t c = (blockIdx.y * std::int64_t{kThreads} + threadIdx.x) * N;
  const std::int64_t begin = blockIdx.x * std::int64_t{kRange}, end = begin + kRange;
  if (c >= cols || !sorted.same(end - 1, end)) return;                   // no run leaves the range
  if (sorted.same(begin - 1, begin) && sorted.same(begin, end)) return;  // it began before
  const float* part = parts + (blockIdx.x * 2 + 1) * cols + c;           // the tail
  float sum[N] = {};
  for (std::int64_t next = end;; next += kRange) {
    const auto pack = load<N>(part);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += pack[n];
    if (!sorted.same(end - 1, next)) break;
    part = parts + next / kRange * 2 * cols + c;  // the head
  }
  add_to(dtable + sorted.rows[end - 1].id * cols + c, sum);
}

struct Work {
  Row *rows, *moved;
  std::int32_t* counts;
  float* parts;
  std::size_t bytes;

  Work(void* work, std::int64_t count, std::int64_t cols) {
    auto* at = static_cast<char*>(work);
    std::size_t used = 0;
    const auto take = [&](std::int64_t size) {
      char* taken = at + used;
      used += static_cast<std::size_t>(ceil_div(size, 256) * 256);
      return taken;
    };
    const auto list = count * static_cast<std::int64_t>(sizeof(Row));
    rows = reinterpret_cast<Row*>(take(list));
    moved = reinterpret_cast<Row*>(take(list));
    counts = reinterpret_cast<std::int32_t*>(take(ceil_div(count, kTile) * kDigits * 4));
    parts = reinterpret_cast<float*>(take(ceil_div(count, kRange) * 2 * cols * 4));
    bytes = used;
  }
};

// The rows by id, equal ones in order.
const Row* sort(Work& work, const std::int32_t* ids, std::int64_t count, std::int64_t vocab,
                cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(ceil_div(count, kTile));
  list_rows_kernel<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream>>>(
      work.rows, ids, count);
  Row *from = work.rows, *to = work.moved;
  const int bits = std::bit_width(static_cast<std::uint64_t>(vocab - 1));
  for (int shift = 0; shift < bits; shift += 8) {
    count_digits_kernel<<<tiles, kTile, 0, stream>>>(work.counts, from, count, shift);
    scan_kernel<<<1, kTile, 0, stream>>>(work.counts, std::int64_t{tiles} * kDigits);
    move_kernel<<<tiles, kTile, 0, stream>>>(to, from, work.counts, count, shift);
    std::swap(from, to);
  }
  check(cudaGetLastError());
  return from;
}

}  // namespace

template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, bool accumulate, cudaStream_t stream) {
  if (rows * cols == 0) return;
  with_width<kWide<T>>(aligned(y, table) && cols % kWide<T> == 0, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    forward_kernel<N>
        <<<static_cast<unsigned>(ceil_div(packs, 4 * kThreads)), kThreads, 0, stream>>>(
            y, ids, table, packs, cols / N, accumulate);
  });
  check(cudaGetLastError());
}

std::size_t embedding_backward_work(std::int64_t rows, std::int64_t cols) {
  return Work(nullptr, rows, cols).bytes;
}

template <class T>
void embedding_backward(float* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, std::int64_t vocab, void* work, cudaStream_t stream) {
  if (rows * cols == 0) return;
  Work places(work, rows, cols);
  const Sorted sorted{sort(places, ids, rows, vocab, stream), rows};
  with_width<kWide<T>>(aligned(dtable, dy) && cols % kWide<T> == 0, [&]<int N>() {
    const dim3 grid(static_cast<unsigned>(ceil_div(rows, kRange)),
                    static_cast<unsigned>(ceil_div(cols, kThreads * N)));
    sum_runs_kernel<N><<<grid, kThreads, 0, stream>>>(dtable, places.parts, dy, sorted, cols);
    join_runs_kernel<N><<<grid, kThreads, 0, stream>>>(dtable, places.parts, sorted, cols);
  });
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                           \
  template void embedding_forward(T*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                                  bool, cudaStream_t);                                           \
  template void embedding_backward(float*, const std::int32_t*, const T*, std::int64_t,          \
                                   std::int64_t, std::int64_t, void*, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
