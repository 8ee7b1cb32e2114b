#include "kernels/embedding.h"

#include <bit>

#include "kernels/dependent.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// --- Forward ------------------------------------------------------------------------------------

constexpr int kForwardPacks = 2;  // a thread's, on their way at once

template <int N, bool kAccumulate, class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* y, const std::int32_t* ids,
                                                           const T* table, WordRange words,
                                                           std::int64_t packs,
                                                           std::int64_t packs_per_row) {
  let_next_kernel_begin();  // it began after all before it, so what those wrote may be read early
  const std::int64_t begin = blockIdx.x * std::int64_t{kForwardPacks * kThreads} + threadIdx.x;
  Pack<T, N> from[kForwardPacks], to[kForwardPacks];
#pragma unroll
  for (int u = 0; u < kForwardPacks; ++u) {
    const std::int64_t pack = begin + u * kThreads, row = pack / packs_per_row;
    if (pack >= packs) continue;
    const std::int64_t id = ids[row] - words.first;
    from[u] = {};
    if (0 <= id && id < words.vocab)
      from[u] = load<N>(table + (id * packs_per_row + (pack - row * packs_per_row)) * N);
    if constexpr (kAccumulate) to[u] = load<N>(y + pack * N);
  }
#pragma unroll
  for (int u = 0; u < kForwardPacks; ++u) {
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

// A stable radix sort by digits of 9 bits, from the lowest.  Tiles, of which there are few, count
// their digits; then each finds the places of its elements from all the counts, moves them there,
// and counts the next digits of the tiles where they come to lie.
constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits, kSortThreads = 1024;
constexpr int kMostTiles = 64, kMostPasses = 4;

struct Row {
  std::int32_t id, row;  // id: among the table's words, their number for all others
};

// What a pass sorts: rows, or at first the ids in order.
struct Unsorted {
  const Row* rows;  // null: ids
  const std::int32_t* ids;
  std::int64_t count, tile;  // elements, of all and of a tile
  WordRange words;
  int shift;
  __device__ Row at(std::int64_t i) const {
    if (rows) return rows[i];
    const std::int64_t id = ids[i] - words.first;
    const bool there = 0 <= id && id < words.vocab;
    return {static_cast<std::int32_t>(there ? id : words.vocab), static_cast<std::int32_t>(i)};
  }
  __device__ std::int64_t begin() const { return blockIdx.x * tile; }
  __device__ std::int64_t end() const { return min(count, begin() + tile); }
  __device__ int digit(const Row& row) const { return row.id >> shift & (kDigits - 1); }
  __device__ int next_digit(const Row& row) const {
    return row.id >> (shift + kDigitBits) & (kDigits - 1);
  }
};

// counts: [passes, tiles, kDigits], of which the first are counted and the others become 0.
__global__ __launch_bounds__(kSortThreads) void count_digits_kernel(std::int32_t* counts,
                                                                    int passes, Unsorted from) {
  __shared__ int of_digit[kDigits];
  if (threadIdx.x < kDigits) of_digit[threadIdx.x] = 0;
  let_next_kernel_begin();
  wait_for_kernel_before();
  __syncthreads();
  for (std::int64_t i = from.begin() + threadIdx.x; i < from.end(); i += kSortThreads)
    atomicAdd(&of_digit[from.digit(from.at(i))], 1);
  __syncthreads();
  if (threadIdx.x >= kDigits) return;
  for (int pass = 0; pass < passes; ++pass)
    counts[(pass * gridDim.x + blockIdx.x) * kDigits + threadIdx.x] =
        pass == 0 ? of_digit[threadIdx.x] : 0;
}

// Inclusive sums over the warp's lanes.
__device__ int scan_lanes(int x) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(0xffffffff, x, distance);
    if (static_cast<int>(threadIdx.x % 32) >= distance) x += before;
  }
  return x;
}

// places[d]: where the tile's first element of digit d goes.  A thread adds up a digit's counts of
// every other tile.
__device__ void find_places(int (&places)[kDigits], const std::int32_t* counts) {
  constexpr int kHalves = kSortThreads / kDigits;
  __shared__ int of_half[kHalves][kDigits], before_in_half[kHalves][kDigits];
  __shared__ int of_warp[32];
  const int digit = static_cast<int>(threadIdx.x) % kDigits;
  const int half = static_cast<int>(threadIdx.x) / kDigits;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int all = 0, before = 0;
#pragma unroll 8
  for (int tile = half; tile < static_cast<int>(gridDim.x); tile += kHalves) {
    const int count = counts[tile * kDigits + digit];
    all += count;
    if (tile < static_cast<int>(blockIdx.x)) before += count;
  }
  of_half[half][digit] = all;
  before_in_half[half][digit] = before;
  __syncthreads();
  const int total = of_half[0][digit] + of_half[1][digit];
  const int in_warp = scan_lanes(total);
  if (lane == 31) of_warp[warp] = in_warp;
  __syncthreads();
  if (half > 0) return;
  int smaller = in_warp - total;  // elements with smaller digits
  for (int w = 0; w < warp; ++w) smaller += of_warp[w];
  places[digit] = smaller + before_in_half[0][digit] + before_in_half[1][digit];
}

// next: of the tiles of `to`, or null.
__global__ __launch_bounds__(kSortThreads) void move_kernel(Row* to, const std::int32_t* counts,
                                                            std::int32_t* next, Unsorted from) {
  // How many of a digit a warp has, then how many all before it have.
  __shared__ unsigned short of_warp[32][kDigits];
  __shared__ int places[kDigits];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  let_next_kernel_begin();
  wait_for_kernel_before();
  find_places(places, counts);
  for (std::int64_t first = from.begin(); first < from.end(); first += kSortThreads) {
    for (int d = lane; d < kDigits; d += 32) of_warp[warp][d] = 0;
    __syncwarp();
    const std::int64_t i = first + threadIdx.x;
    const bool exists = i < from.end();
    const Row row = exists ? from.at(i) : Row{};
    const int digit = exists ? from.digit(row) : kDigits;
    const unsigned alike = __match_any_sync(0xffffffff, digit);
    const int rank = __popc(alike & ((1u << lane) - 1));
    if (exists && rank == 0) of_warp[warp][digit] = static_cast<unsigned short>(__popc(alike));
    __syncthreads();
    int all = 0;
    if (threadIdx.x < kDigits)
#pragma unroll
      for (int w = 0; w < 32; ++w) {
        const int own = of_warp[w][threadIdx.x];
        of_warp[w][threadIdx.x] = static_cast<unsigned short>(all);
        all += own;
      }
    __syncthreads();
    if (exists) {
      const int place = places[digit] + of_warp[warp][digit] + rank;
      to[place] = row;
      const int tile = place / static_cast<int>(from.tile);
      if (next) atomicAdd(next + tile * kDigits + from.next_digit(row), 1);
    }
    __syncthreads();
    if (threadIdx.x < kDigits) places[threadIdx.x] += all;
  }
}

// --- Backward: sums of equal ids ----------------------------------------------------------------

// Blocks take ranges of sorted rows.  A run of equal ids that lies in one range goes straight to
// the table.  Of a run over several ranges each leaves a part: `head` where the run began before
// the range, else `tail`; the block of its tail then adds them in order.
constexpr std::int64_t kRange = 64, kSumThreads = 128;

struct Sorted {
  const Row* rows;
  std::int64_t count, vocab;
  __device__ bool same(std::int64_t i, std::int64_t j) const {
    return i >= 0 && j < count && rows[i].id == rows[j].id && rows[i].id < vocab;
  }
};

template <int N, class G>
__device__ void store_sum(G* to, const Pack<G, N>& before, const float (&sum)[N]) {
  float after[N];
#pragma unroll
  for (int n = 0; n < N; ++n) after[n] = before[n] + sum[n];
  store(to, after);
}

// A row of a range, and where the sum of its run goes behind it: to a word of the table or, of a
// run that others share, to `head` or `tail`.
struct Step {
  std::int32_t row, to;
};
constexpr std::int32_t kNoRow = -1, kGoesOn = -2, kHead = -3, kTail = -4;  // other `to`
constexpr int kAhead = 4;                                                  // rows on their way

// Blocks take the columns of one range after the other, here and below; here from the last range
// on, where rare words are, whose sums take longest.
template <int N, class T, class G>
__global__ __launch_bounds__(kSumThreads, 8) void sum_runs_kernel(G* dtable, float* parts,
                                                                  const T* dy, Sorted sorted,
                                                                  std::int64_t cols) {
  __shared__ Step steps[kRange + kAhead];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t column_blocks = ceil_div(cols, std::int64_t{blockDim.x} * N);
  const std::int64_t block = gridDim.x - 1 - blockIdx.x;
  const std::int64_t range = block / column_blocks, begin = range * kRange;
  for (int r = static_cast<int>(threadIdx.x); r < kRange + kAhead;
       r += static_cast<int>(blockDim.x)) {
    const std::int64_t i = begin + r;
    Step step{0, kNoRow};
    if (r < kRange && i < sorted.count && sorted.rows[i].id < sorted.vocab) {
      const Row row = sorted.rows[i];
      const bool from_before = sorted.same(begin - 1, i), goes_on = sorted.same(i, i + 1);
      step.row = row.row;
      step.to = goes_on && r + 1 < kRange ? kGoesOn
                : from_before             ? kHead
                : goes_on                 ? kTail
                                          : row.id;
    }
    steps[r] = step;
  }
  __syncthreads();
  const std::int64_t c = (block % column_blocks * blockDim.x + threadIdx.x) * N;
  if (c >= cols) return;
  dtable += c, dy += c;
  Pack<T, N> packs[kAhead];
  Pack<G, N> before[kAhead];  // of the table, where a run ends that belongs there
  const auto fetch = [&](Pack<T, N>& pack, Pack<G, N>& old, const Step& step) {
    if (step.to == kNoRow) return;
    pack = load<N>(dy + step.row * cols);
    if (step.to >= 0) old = load<N>(dtable + step.to * cols);
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(packs[u], before[u], steps[u]);
  float sum[N] = {};
#pragma unroll 1
  for (int first = 0; first < kRange; first += kAhead)
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const std::int32_t to = steps[first + u].to;
      if (to == kNoRow) return;  // nor are there any behind
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += packs[u][n];
      if (to != kGoesOn) {
        if (to >= 0)
          store_sum(dtable + to * cols, before[u], sum);
        else
          store(parts + (range * 2 + (to == kTail)) * cols + c, sum);
#pragma unroll
        for (int n = 0; n < N; ++n) sum[n] = 0;
      }
      fetch(packs[u], before[u], steps[first + u + kAhead]);
    }
}

template <int N, class G>
__global__ __launch_bounds__(kThreads) void join_runs_kernel(G* dtable, const float* parts,
                                                             Sorted sorted, std::int64_t cols) {
  constexpr int kUnroll = 16;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t column_blocks = ceil_div(cols, std::int64_t{kThreads} * N);
  const std::int64_t range = blockIdx.x / column_blocks;
  const std::int64_t begin = range * kRange, end = begin + kRange;
  if (!sorted.same(end - 1, end)) return;                                // no run leaves the range
  if (sorted.same(begin - 1, begin) && sorted.same(begin, end)) return;  // it began before
  std::int64_t heads = 0;  // of the ranges behind, into which it goes on
  for (int found = kThreads; found == kThreads; heads += found)
    found = __syncthreads_count(sorted.same(end - 1, end + (heads + threadIdx.x) * kRange));
  const std::int64_t c = (blockIdx.x % column_blocks * kThreads + threadIdx.x) * N;
  if (c >= cols) return;
  const auto tail = load<N>(parts + (range * 2 + 1) * cols + c);
  const float* head = parts + (range + 1) * 2 * cols + c;
  G* to = dtable + sorted.rows[end - 1].id * cols + c;
  const auto before = load<N>(to);
  float sum[N];
#pragma unroll
  for (int n = 0; n < N; ++n) sum[n] = tail[n];
  for (std::int64_t h = 0; h < heads; h += kUnroll) {
    Pack<float, N> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (h + u < heads) packs[u] = load<N>(head + (h + u) * 2 * cols);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (h + u < heads)
#pragma unroll
        for (int n = 0; n < N; ++n) sum[n] += packs[u][n];
  }
  store_sum(to, before, sum);
}

// Elements of a tile: a number of rounds.
std::int64_t tile_of(std::int64_t count) {
  return ceil_div(count, std::int64_t{kMostTiles} * kSortThreads) * kSortThreads;
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
    counts = reinterpret_cast<std::int32_t*>(take(kMostPasses * kMostTiles * kDigits * 4));
    parts = reinterpret_cast<float*>(take(ceil_div(count, kRange) * 2 * cols * 4));
    bytes = used;
  }
};

// The rows by id, equal ones in order.
const Row* sort(const Work& work, const std::int32_t* ids, std::int64_t count, WordRange words,
                cudaStream_t stream) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(words.vocab)));
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  Unsorted from{nullptr, ids, count, tile_of(count), words, 0};
  const std::int64_t tiles = ceil_div(count, from.tile);
  launch_dependent(count_digits_kernel, tiles, kSortThreads, 0, stream, work.counts, passes, from);
  for (int pass = 0; pass < passes; ++pass, from.shift += kDigitBits) {
    Row* to = from.rows == work.rows ? work.moved : work.rows;
    std::int32_t *counts = work.counts + pass * tiles * kDigits, *next = counts + tiles * kDigits;
    launch_dependent(move_kernel, tiles, kSortThreads, 0, stream, to, counts,
                     pass + 1 < passes ? next : nullptr, from);
    from.rows = to;
  }
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
    const auto blocks = static_cast<unsigned>(ceil_div(packs, kForwardPacks * kThreads));
    kernel<<<blocks, kThreads, 0, stream>>>(y, ids, table, words, packs, cols / N);
  });
  check(cudaGetLastError());
}

std::size_t embedding_backward_work(std::int64_t rows, std::int64_t cols) {
  return Work(nullptr, rows, cols).bytes;
}

template <class T, class G>
void embedding_backward(G* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, WordRange words, void* work, cudaStream_t stream) {
  if (rows * cols == 0) return;
  Work places(work, rows, cols);
  const Sorted sorted{sort(places, ids, rows, words, stream), rows, words.vocab};
  const std::int64_t ranges = ceil_div(rows, kRange);
  with_width<4>(aligned(dtable, dy) && cols % 4 == 0, [&]<int N>() {
    const std::int64_t packs = cols / N, threads = min(kSumThreads, ceil_div(packs, 32) * 32);
    launch_dependent(sum_runs_kernel<N, T, G>, ranges * ceil_div(packs, threads),
                     static_cast<int>(threads), 0, stream, dtable, places.parts, dy, sorted, cols);
  });
  with_width<4>(aligned(dtable) && cols % 4 == 0, [&]<int N>() {
    launch_dependent(join_runs_kernel<N, G>, ranges * ceil_div(cols, kThreads * N), kThreads, 0,
                     stream, dtable, places.parts, sorted, cols);
  });
}

#define INSTANTIATE_BACKWARD(T, G)                                                                \
  template void embedding_backward(G*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                                   WordRange, void*, cudaStream_t)
#define INSTANTIATE(T)                                                                           \
  template void embedding_forward(T*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                                  WordRange, bool, cudaStream_t);                                \
  INSTANTIATE_BACKWARD(T, float)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
INSTANTIATE_BACKWARD(bf16, bf16);

}  // namespace mt::cuda
