// kernels/norm.cuh: LayerNorm (kCentred) and RMSNorm (mean 0, no b) in one, for layer_norm_cuda.cu
// and rms_norm_cuda.cu.
//
// A group of threads holds a row in registers, a thread every group-th of its packs, at most
// kPacks; groups of fewer than 32 threads are a power of two and share warps.  Rows that do not
// fit, or whose packs are not aligned, take the `any` kernels, which read them several times.
#pragma once

#include "kernels/reduce.cuh"

namespace mt::cuda::norm {

template <class T>
struct Forward {
  T* y;
  float *mean, *rstd;
  const T *x, *w, *b;
  std::int64_t rows, cols;
  float eps;
};
template <class T>
struct Backward {
  T* dx;
  float* part;  // [parts, dw and db, cols]
  const T *dy, *x;
  const float *mean, *rstd;
  const T* w;
  std::int64_t rows, cols;
};

// Threads that hold `packs` packs, at most kPacks each.
inline int group_size(std::int64_t packs, int per_thread) {
  const auto threads = static_cast<int>(ceil_div(packs, per_thread));
  if (threads > 32) return (threads + 31) / 32 * 32;
  int group = 1;
  while (group < threads) group *= 2;
  return group;
}

__device__ inline float over_group(float x, int group, float* shared) {
  return group <= 32 ? over_lanes(x, group) : over_block(x, shared);
}

// --- Forward ------------------------------------------------------------------------------------

inline constexpr int kForwardPacks = 4, kMostThreads = 1024;

template <int N, bool kCentred, class T>
__global__ __launch_bounds__(kMostThreads) void forward_kernel(Forward<T> a, int group) {
  __shared__ float shared[2][32];
  const std::int64_t row = blockIdx.x * std::int64_t{blockDim.x / group} + threadIdx.x / group;
  const bool in_rows = row < a.rows;
  const std::int64_t start = row * a.cols;
  const auto column = [&](int p) {
    return (static_cast<std::int64_t>(threadIdx.x % group) + std::int64_t{p} * group) * N;
  };
  Pack<T, N> x[kForwardPacks];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kForwardPacks; ++p)
    if (in_rows && column(p) < a.cols) x[p] = load<N>(a.x + start + column(p));
  if constexpr (kCentred) {
#pragma unroll
    for (int p = 0; p < kForwardPacks; ++p)
      if (in_rows && column(p) < a.cols)
#pragma unroll
        for (int n = 0; n < N; ++n) sum += x[p][n];
  }
  const float mean = kCentred ? over_group(sum, group, shared[0]) / float(a.cols) : 0;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kForwardPacks; ++p)
    if (in_rows && column(p) < a.cols)
#pragma unroll
      for (int n = 0; n < N; ++n) squares += (x[p][n] - mean) * (x[p][n] - mean);
  const float rstd = rsqrtf(over_group(squares, group, shared[1]) / float(a.cols) + a.eps);
  if (!in_rows) return;
  if (threadIdx.x % group == 0) {
    if constexpr (kCentred) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
#pragma unroll
  for (int p = 0; p < kForwardPacks; ++p) {
    if (column(p) >= a.cols) break;
    const auto w = load<N>(a.w + column(p));
    float y[N];
    if constexpr (kCentred) {
      const auto b = load<N>(a.b + column(p));
#pragma unroll
      for (int n = 0; n < N; ++n) y[n] = (x[p][n] - mean) * rstd * w[n] + b[n];
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) y[n] = x[p][n] * rstd * w[n];
    }
    store(a.y + start + column(p), y);
  }
}

template <bool kCentred, class T>  // one block a row
__global__ void forward_any_kernel(Forward<T> a) {
  __shared__ float shared[2][32];
  const std::int64_t row = blockIdx.x;
  const T* x = a.x + row * a.cols;
  T* y = a.y + row * a.cols;
  float sum = 0, squares = 0;
  if constexpr (kCentred)
    for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) sum += to_float(x[c]);
  const float mean = kCentred ? over_block(sum, shared[0]) / float(a.cols) : 0;
  for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x)
    squares += (to_float(x[c]) - mean) * (to_float(x[c]) - mean);
  const float rstd = rsqrtf(over_block(squares, shared[1]) / float(a.cols) + a.eps);
  if (threadIdx.x == 0) {
    if constexpr (kCentred) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x)
    y[c] = static_cast<T>((to_float(x[c]) - mean) * rstd * to_float(a.w[c]) +
                          (kCentred ? to_float(a.b[c]) : 0));
}

template <bool kCentred, class T>
void forward(const Forward<T>& a, cudaStream_t stream) {
  if (a.rows == 0 || a.cols == 0) return;
  constexpr int N = kWide<T>;
  const std::int64_t packs = a.cols / N;
  if (aligned(a.y, a.x, a.w, a.b) && a.cols % N == 0 && packs <= kForwardPacks * kMostThreads) {
    const int group = group_size(packs, kForwardPacks), threads = group < 32 ? 128 : group;
    const auto blocks = static_cast<unsigned>(ceil_div(a.rows, threads / group));
    forward_kernel<N, kCentred><<<blocks, threads, 0, stream>>>(a, group);
  } else {
    forward_any_kernel<kCentred><<<static_cast<unsigned>(a.rows), 512, 0, stream>>>(a);
  }
  check(cudaGetLastError());
}

// --- Backward -----------------------------------------------------------------------------------

// Blocks stay and take rows in turn, adding dw and db up in registers: one block for each
// multiprocessor of an H200, whatever the GPU, so that the sums' order is the same on all.
inline constexpr int kBackwardThreads = 512;
inline constexpr std::int64_t kMostParts = 132;

inline std::int64_t parts(std::int64_t rows) { return min(rows, kMostParts); }

// Sum over a group; groups of several warps meet at a barrier of their own, and `shared` (the
// group's, for as many warps) must not be written again before the next but one.
__device__ inline float2 over_group(float2 x, int group, int barrier, float2* shared) {
  const auto plus = [](float2 a, float2 b) { return float2{a.x + b.x, a.y + b.y}; };
  x = {over_lanes(x.x, min(group, 32)), over_lanes(x.y, min(group, 32))};
  if (group <= 32) return x;
  const int warps = group / 32, warp = static_cast<int>(threadIdx.x) % group / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = x;
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(group) : "memory");
  x = shared[0];
  for (int w = 1; w < warps; ++w) x = plus(x, shared[w]);
  return x;
}

// A thread's sums of one gradient over its rows to the block's part: first the groups of a warp,
// then one group, or warp, after the other through shared memory.
template <int N, int kPacks>
__device__ void store_part(float* part, float (&sum)[kPacks][N], int group, std::int64_t cols,
                           float* shared) {
  const int t = static_cast<int>(threadIdx.x) % group;
  const int team = max(group, 32), teams = static_cast<int>(blockDim.x) / team;
  for (int distance = group; distance < 32; distance *= 2)
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
#pragma unroll
      for (int n = 0; n < N; ++n) sum[p][n] += __shfl_xor_sync(0xffffffff, sum[p][n], distance);
  for (int turn = 0; turn < teams; ++turn) {
    const bool mine = static_cast<int>(threadIdx.x) / team == turn &&
                      static_cast<int>(threadIdx.x) % team < group;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t c = (t + std::int64_t{p} * group) * N;
      if (!mine || c >= cols) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float before = turn > 0 ? shared[c + n] : 0;
        (turn + 1 < teams ? shared : part)[c + n] = before + sum[p][n];
      }
    }
    __syncthreads();
  }
}

template <int N, int kPacks, bool kCentred, class T>
__global__ __launch_bounds__(kBackwardThreads) void backward_kernel(Backward<T> a, int group) {
  constexpr bool kAhead = kPacks <= 2;  // the next row is on its way while this one is worked on
  constexpr int kSlots = kAhead ? 2 : 1;
  extern __shared__ float columns[];  // [cols]
  __shared__ float2 shared[2][kBackwardThreads / 32];
  const int groups = static_cast<int>(blockDim.x) / group;
  const int mine = static_cast<int>(threadIdx.x) / group, t = static_cast<int>(threadIdx.x) % group;
  const std::int64_t stride = std::int64_t{gridDim.x} * groups;
  const auto column = [&](int p) { return (t + std::int64_t{p} * group) * N; };
  Pack<T, N> w[kPacks], x[kSlots][kPacks], dy[kSlots][kPacks];
  float dw[kPacks][N] = {}, db[kPacks][N] = {}, mean[kSlots] = {}, rstd[kSlots] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (column(p) < a.cols) w[p] = load<N>(a.w + column(p));
  const auto fetch = [&](int slot, std::int64_t row) {
    if (row >= a.rows) return;
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (column(p) < a.cols) {
        x[slot][p] = load<N>(a.x + row * a.cols + column(p));
        dy[slot][p] = load<N>(a.dy + row * a.cols + column(p));
      }
    if constexpr (kCentred) mean[slot] = a.mean[row];
    rstd[slot] = a.rstd[row];
  };
  std::int64_t row = blockIdx.x * std::int64_t{groups} + mine;
  int parity = 0;
  if constexpr (kAhead) fetch(0, row);
  for (; row - mine < a.rows; row += stride, parity ^= 1) {  // the same for all of the block
    if constexpr (kAhead)
      fetch(1, row + stride);
    else
      fetch(0, row);
    float2 sums = {0, 0};
    const bool in_rows = row < a.rows;
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (in_rows && column(p) < a.cols)
#pragma unroll
        for (int n = 0; n < N; ++n) {
          const float g = dy[0][p][n] * w[p][n], h = (x[0][p][n] - mean[0]) * rstd[0];
          if constexpr (kCentred) sums.x += g;
          sums.y += g * h;
        }
    sums = over_group(sums, group, 1 + mine, shared[parity] + mine * (group / 32));
    const float mean_g = sums.x / float(a.cols), mean_gh = sums.y / float(a.cols);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!in_rows || column(p) >= a.cols) continue;
      float dx[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float d = dy[0][p][n], h = (x[0][p][n] - mean[0]) * rstd[0];
        dw[p][n] += d * h;
        if constexpr (kCentred) db[p][n] += d;
        dx[n] = rstd[0] * (d * w[p][n] - mean_g - h * mean_gh);
      }
      store(a.dx + row * a.cols + column(p), dx);
    }
    if constexpr (kAhead) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) x[0][p] = x[1][p], dy[0][p] = dy[1][p];
      mean[0] = mean[1], rstd[0] = rstd[1];
    }
  }
  float* part = a.part + blockIdx.x * (kCentred ? 2 : 1) * a.cols;
  store_part(part, dw, group, a.cols, columns);
  if constexpr (kCentred) store_part(part + a.cols, db, group, a.cols, columns);
}

template <bool kCentred, class T>  // a thread adds to the columns of the part that are its own
__global__ void backward_any_kernel(Backward<T> a) {
  __shared__ float shared[2][32];
  float *dw = a.part + blockIdx.x * (kCentred ? 2 : 1) * a.cols, *db = dw + a.cols;
  for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
    dw[c] = 0;
    if constexpr (kCentred) db[c] = 0;
  }
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T *x = a.x + row * a.cols, *dy = a.dy + row * a.cols;
    const float mean = kCentred ? a.mean[row] : 0, rstd = a.rstd[row];
    float sum_g = 0, sum_gh = 0;
    for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
      const float g = to_float(dy[c]) * to_float(a.w[c]);
      sum_g += g;
      sum_gh += g * ((to_float(x[c]) - mean) * rstd);
    }
    const float mean_g = kCentred ? over_block(sum_g, shared[0]) / float(a.cols) : 0;
    const float mean_gh = over_block(sum_gh, shared[1]) / float(a.cols);
    for (std::int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
      const float d = to_float(dy[c]), h = (to_float(x[c]) - mean) * rstd;
      dw[c] += d * h;
      if constexpr (kCentred) db[c] += d;
      a.dx[row * a.cols + c] = static_cast<T>(rstd * (d * to_float(a.w[c]) - mean_g - h * mean_gh));
    }
    __syncthreads();
  }
}

inline std::size_t backward_work(std::int64_t rows, std::int64_t cols, bool centred) {
  return static_cast<std::size_t>(parts(rows) * cols * (centred ? 2 : 1)) * sizeof(float);
}

template <int kPacks, bool kCentred, class T>
void launch_backward(const Backward<T>& a, cudaStream_t stream) {
  constexpr int N = kWide<T>;
  const int group = group_size(a.cols / N, kPacks), threads = kBackwardThreads / group * group;
  const std::size_t columns = threads > max(group, 32) ? a.cols * sizeof(float) : 0;
  backward_kernel<N, kPacks, kCentred>
      <<<static_cast<unsigned>(parts(a.rows)), threads, columns, stream>>>(a, group);
}

template <bool kCentred, class T>
void backward(const Backward<T>& a, float* dw, float* db, cudaStream_t stream) {
  if (a.rows == 0 || a.cols == 0) return;
  const std::int64_t packs = a.cols / kWide<T>;
  const bool wide = aligned(a.dx, a.dy, a.x, a.w) && a.cols % kWide<T> == 0;
  if (wide && packs <= 2 * kBackwardThreads)
    launch_backward<2, kCentred>(a, stream);
  else if (wide && packs <= 4 * kBackwardThreads)
    launch_backward<4, kCentred>(a, stream);
  else
    backward_any_kernel<kCentred>
        <<<static_cast<unsigned>(parts(a.rows)), kBackwardThreads, 0, stream>>>(a);
  check(cudaGetLastError());
  add_parts(dw, db, a.part, parts(a.rows), a.cols, stream);
}

}  // namespace mt::cuda::norm
