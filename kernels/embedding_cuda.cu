#include "kernels/embedding.h"

#include <algorithm>
#include <bit>

#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// --- Forward ------------------------------------------------------------------------------------

template <int N, bool kAccumulate, class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* y, const std::int32_t* ids,
                                                           const T* table, WordRange words,
                                                           std::int64_t packs,
                                                           std::int64_t packs_per_row) {
  constexpr int kUnroll = 4;
  const std::int64_t begin = blockIdx.x * std::int64_t{kUnroll * kThreads} + threadIdx.x;
  Pack<T, N> from[kUnroll], to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = begin + u * kThreads, row = pack / packs_per_row;
    if (pack >= packs) continue;
    const std::int64_t id = ids[row] - words.first;
    from[u] = {};
    if (0 <= id && id < words.vocab)
      from[u] = load<N>(table + (id * packs_per_row + (pack - row * packs_per_row)) * N);
    if constexpr (kAccumulate) to[u] = load<N>(y + pack * N);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t pack = begin + u * kThreads;
    if (pack >= packs) continue;
    if constexpr (kAccumulate) {
      float sum[N];
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = to[u][n] + from[u][n];
      store(y + pack * N, sum);
    } else {
      store(y + pack * N, from[u]);
    }
  }
}

// --- Backward: rows sorted by id ----------------------------------------------------------------

// A stable radix sort by digits of 9 bits, from the lowest: tiles count their digits, one block
// makes places of the counts, tiles move their elements there.
constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits, kTile = 1024;

struct Row {
  std::int32_t id, row;  // id: among the table's words, their number for all others
};

// What a pass sorts: rows, or at first the ids in order.
struct Unsorted {
  const Row* rows;  // null: ids
  const std::int32_t* ids;
  std::int64_t count;
  WordRange words;
  int shift;
  __device__ Row at(std::int64_t i) const {
    if (rows) return rows[i];
    const std::int64_t id = ids[i] - words.first;
    const bool there = 0 <= id && id < words.vocab;
    return {static_cast<std::int32_t>(there ? id : words.vocab), static_cast<std::int32_t>(i)};
  }
  __device__ int digit(const Row& row) const { return row.id >> shift & (kDigits - 1); }
};

// counts: [kDigits, tiles]
__global__ __launch_bounds__(kTile) void count_digits_kernel(std::int32_t* counts, Unsorted from) {
  __shared__ int of_digit[kDigits];
  const std::int64_t i = blockIdx.x * std::int64_t{kTile} + threadIdx.x;
  if (threadIdx.x < kDigits) of_digit[threadIdx.x] = 0;
  __syncthreads();
  if (i < from.count) atomicAdd(&of_digit[from.digit(from.at(i))], 1);
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

// Each count becomes the sum of those before it; a thread takes a run of them.
__global__ __launch_bounds__(kTile) void scan_kernel(std::int32_t* counts, std::int64_t size) {
  __shared__ int of_warp[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t run = (size + kTile - 1) / kTile, begin = threadIdx.x * run;
  const std::int64_t end = min(begin + run, size);
  int own = 0;
  for (std::int64_t i = begin; i < end; ++i) own += counts[i];
  const int in_warp = scan_lanes(own);
  if (lane == 31) of_warp[warp] = in_warp;
  __syncthreads();
  if (warp == 0) of_warp[lane] = scan_lanes(of_warp[lane]);
  __syncthreads();
  int before = (warp > 0 ? of_warp[warp - 1] : 0) + in_warp - own;
  for (std::int64_t i = begin; i < end; ++i) {
    const int count = counts[i];
    counts[i] = before;
    before += count;
  }
}

__global__ __launch_bounds__(kTile) void move_kernel(Row* to, const std::int32_t* places,
                                                     Unsorted from) {
  // How many of a digit a warp has, then how many all before it have.
  __shared__ unsigned short of_warp[32][kDigits];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int d = lane; d < kDigits; d += 32) of_warp[warp][d] = 0;
  __syncwarp();
  const std::int64_t i = blockIdx.x * std::int64_t{kTile} + threadIdx.x;
  const bool exists = i < from.count;
  const Row row = exists ? from.at(i) : Row{};
  const int digit = exists ? from.digit(row) : kDigits;
  const unsigned alike = __match_any_sync(0xffffffff, digit);
  const int rank = __popc(alike & ((1u << lane) - 1));
  if (exists && rank == 0) of_warp[warp][digit] = static_cast<unsigned short>(__popc(alike));
  __syncthreads();
  if (threadIdx.x < kDigits) {
    int before = 0;
    for (int w = 0; w < 32; ++w) {
      const int own = of_warp[w][threadIdx.x];
      of_warp[w][threadIdx.x] = static_cast<unsigned short>(before);
      before += own;
    }
  }
  __syncthreads();
  if (exists)
    to[places[digit * std::int64_t{gridDim.x} + blockIdx.x] + of_warp[warp][digit] + rank] = row;
}

// --- Backward: sums of equal ids ----------------------------------------------------------------

// Blocks take ranges of sorted rows.  A run of equal ids that lies in one range goes straight to
// the table.  Of a run over several ranges each leaves a part: `head` where the run began before
// the range, else `tail`; the block of its tail then adds them in order.
constexpr int kRange = 32;

struct Sorted {
  const Row* rows;
  std::int64_t count, vocab;
  __device__ bool same(std::int64_t i, std::int64_t j) const {
    return i >= 0 && j < count && rows[i].id == rows[j].id && rows[i].id < vocab;
  }
};

template <int N>
__device__ void store_sum(float* to, const Pack<float, N>& before, const float (&sum)[N]) {
  float after[N];
#pragma unroll
  for (int n = 0; n < N; ++n) after[n] = before[n] + sum[n];
  store(to, after);
}

template <int N, class T>
__global__ __launch_bounds__(kThreads) void sum_runs_kernel(float* dtable, float* parts,
                                                            const T* dy, Sorted sorted,
                                                            std::int64_t cols) {
  constexpr int kUnroll = 8;
  constexpr std::int32_t kNone = -1;
  __shared__ Row rows[kRange + 2];  // with the ones before and behind
  const std::int64_t begin = blockIdx.x * std::int64_t{kRange};
  if (threadIdx.x < kRange + 2) {
    const std::int64_t i = begin - 1 + threadIdx.x;
    Row row{kNone, 0};
    if (i >= 0 && i < sorted.count && sorted.rows[i].id < sorted.vocab) row = sorted.rows[i];
    rows[threadIdx.x] = row;
  }
  __syncthreads();
  const std::int64_t c = (blockIdx.y * std::int64_t{kThreads} + threadIdx.x) * N;
  if (c >= cols) return;
  float *head = parts + blockIdx.x * 2 * cols + c, *tail = head + cols;
  float sum[N] = {};
  bool from_before = rows[0].id == rows[1].id;
  for (int first = 1; first <= kRange; first += kUnroll) {
    Pack<T, N> packs[kUnroll];
    Pack<float, N> before[kUnroll];  // of the table, where a run ends that belongs there
    float* to[kUnroll];              // where the run that ends with this row goes, or null
    bool in_table[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const Row row = rows[first + u];
      to[u] = nullptr, in_table[u] = false;
      if (row.id == kNone) continue;
      packs[u] = load<N>(dy + row.row * cols + c);
      const bool goes_on = row.id == rows[first + u + 1].id;
      if (goes_on && first + u < kRange) continue;
      in_table[u] = !from_before && !goes_on;
      to[u] = in_table[u] ? dtable + row.id * cols + c : from_before ? head : tail;
      from_before = false;
      if (in_table[u]) before[u] = load<N>(to[u]);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (rows[first + u].id == kNone) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += packs[u][n];
      if (!to[u]) continue;
      if (in_table[u])
        store_sum(to[u], before[u], sum);
      else
        store(to[u], sum);
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = 0;
    }
  }
}

template <int N>
__global__ __launch_bounds__(kThreads) void join_runs_kernel(float* dtable, const float* parts,
                                                             Sorted sorted, std::int64_t cols) {
  constexpr int kUnroll = 8;
  const std::int64_t c = (blockIdx.y * std::int64_t{kThreads} + threadIdx.x) * N;
  const std::int64_t begin = blockIdx.x * std::int64_t{kRange}, end = begin + kRange;
  if (c >= cols || !sorted.same(end - 1, end)) return;                   // no run leaves the range
  if (sorted.same(begin - 1, begin) && sorted.same(begin, end)) return;  // it began before
  const float* tail = parts + (blockIdx.x * 2 + 1) * cols + c;
  const auto first = load<N>(tail);
  float sum[N];
#pragma unroll
  for (int n = 0; n < N; ++n) sum[n] = first[n];
  bool goes_on = true;
  for (std::int64_t next = end; goes_on; next += kUnroll * kRange) {  // heads
    Pack<float, N> packs[kUnroll];
    bool same[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t at = next + u * kRange;
      same[u] = sorted.same(end - 1, at);
      if (same[u]) packs[u] = load<N>(parts + at / kRange * 2 * cols + c);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      goes_on = goes_on && same[u];
      if (!goes_on) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += packs[u][n];
    }
  }
  float* to = dtable + sorted.rows[end - 1].id * cols + c;
  store_sum(to, load<N>(to), sum);
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
const Row* sort(Work& work, const std::int32_t* ids, std::int64_t count, WordRange words,
                cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(ceil_div(count, kTile));
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(words.vocab)));
  Unsorted from{nullptr, ids, count, words, 0};
  for (; from.shift < bits; from.shift += kDigitBits) {
    Row* to = from.rows == work.rows ? work.moved : work.rows;
    count_digits_kernel<<<tiles, kTile, 0, stream>>>(work.counts, from);
    scan_kernel<<<1, kTile, 0, stream>>>(work.counts, std::int64_t{tiles} * kDigits);
    move_kernel<<<tiles, kTile, 0, stream>>>(to, work.counts, from);
    from.rows = to;
  }
  check(cudaGetLastError());
  return from.rows;
}

}  // namespace

template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, WordRange words, bool accumulate, cudaStream_t stream) {
  if (rows * cols == 0) return;
  with_width<kWide<T>>(aligned(y, table) && cols % kWide<T> == 0, [&]<int N>() {
    const std::int64_t packs = rows * cols / N;
    const auto kernel = accumulate ? forward_kernel<N, true, T> : forward_kernel<N, false, T>;
    kernel<<<static_cast<unsigned>(ceil_div(packs, 4 * kThreads)), kThreads, 0, stream>>>(
        y, ids, table, words, packs, cols / N);
  });
  check(cudaGetLastError());
}

std::size_t embedding_backward_work(std::int64_t rows, std::int64_t cols) {
  return Work(nullptr, rows, cols).bytes;
}

template <class T>
void embedding_backward(float* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, WordRange words, void* work, cudaStream_t stream) {
  if (rows * cols == 0) return;
  Work places(work, rows, cols);
  const Sorted sorted{sort(places, ids, rows, words, stream), rows, words.vocab};
  with_width<4>(aligned(dtable, dy) && cols % 4 == 0, [&]<int N>() {
    const dim3 grid(static_cast<unsigned>(ceil_div(rows, kRange)),
                    static_cast<unsigned>(ceil_div(cols, kThreads * N)));
    sum_runs_kernel<N><<<grid, kThreads, 0, stream>>>(dtable, places.parts, dy, sorted, cols);
    join_runs_kernel<N><<<grid, kThreads, 0, stream>>>(dtable, places.parts, sorted, cols);
  });
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                           \
  template void embedding_forward(T*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                                  WordRange, bool, cudaStream_t);                                \
  template void embedding_backward(float*, const std::int32_t*, const T*, std::int64_t,          \
                                   std::int64_t, WordRange, void*, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
