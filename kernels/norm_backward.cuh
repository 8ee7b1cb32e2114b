// kernels/norm_backward.cuh: the backward of LayerNorm (kCentred) and RMSNorm (mean 0, no db) in
// one, for layer_norm_cuda.cu and rms_norm_cuda.cu.
//
// A group of threads holds a row in registers, a thread every group-th of its packs, at most
// kPacks; groups of at most 32 threads are a power of two and share warps, larger ones are whole
// warps.  Rows that do not fit, or whose packs are not aligned, take the `any` kernel, which reads
// them several times; so do LayerNorm's of 16 bits of more than 1024 packs where code is not for
// Hopper, and on Turing all of these, and any others of more than 1024.
#pragma once

#include <algorithm>

#include "kernels/gpu.h"
#include "kernels/ptx.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda::norm {

template <class T>
struct Backward {
  T* dx;
  float* part;            // [parts, dw and db, cols]
  const T *add, *dy, *x;  // add: to dx, or null
  const float *mean, *rstd;
  const T* w;
  std::int64_t rows, cols;
};

// Threads that hold `packs` packs, at most per_thread each.
inline int group_size(std::int64_t packs, int per_thread) {
  const auto threads = static_cast<int>(ceil_div(packs, per_thread));
  if (threads > 32) return (threads + 31) / 32 * 32;
  int group = 1;
  while (group < threads) group *= 2;
  return group;
}

// Blocks stay and take rows in turn, adding dw and db up in registers: one block for each
// multiprocessor of an H200, whatever the GPU, so that the sums' order is the same on all.  The
// rows that follow are on their way into shared memory meanwhile, where each thread keeps its own
// packs.
inline constexpr std::int64_t kMostParts = 132;

inline std::int64_t parts(std::int64_t rows) { return min(rows, kMostParts); }

// Two sums over a group; groups of several warps meet at a barrier of their own, and `shared` (the
// group's, for as many warps) must not be written again before the next but one.
__device__ inline float2 over_group(float2 x, int group, int barrier, float2* shared) {
  if (group <= 32) return {over_lanes(x.x, group), over_lanes(x.y, group)};
  // Half of the lanes add x up, half y.
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = group / 32;
  const bool low = lane < 16;
  float half = (low ? x.x : x.y) + __shfl_xor_sync(0xffffffff, low ? x.y : x.x, 16);
  half = over_lanes(half, 16);
  float* of_group = reinterpret_cast<float*>(shared);
  if (lane % 16 == 0) of_group[static_cast<int>(threadIdx.x) % group / 32 * 2 + lane / 16] = half;
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(group) : "memory");
  half = lane % 16 < warps ? of_group[lane % 16 * 2 + lane / 16] : 0;
  half = over_lanes(half, 16);
  const float other = __shfl_xor_sync(0xffffffff, half, 16);
  return low ? float2{half, other} : float2{other, half};
}

// A thread's sums of one gradient over its rows to the block's part: first the groups of a warp are
// added, then in shared memory those, or the groups of several warps, in order.
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
  float* const of_team = shared + static_cast<int>(threadIdx.x) / team * cols;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t c = (t + std::int64_t{p} * group) * N;
    if (static_cast<int>(threadIdx.x) % team < group && c < cols) store(of_team + c, sum[p]);
  }
  __syncthreads();
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    float total = 0;
    for (int i = 0; i < teams; ++i) total += shared[i * cols + c];
    part[c] = total;
  }
}

// Rows on their way.
template <int kPacks, int kThreads, Code kOf = kCode>
struct Ring {
  static constexpr int kOfHopper = kPacks == 2 ? 4 : kPacks == 3 ? 3 : 2;
  static constexpr int kOfOthers = kOf == Code::generic && kPacks == 2 ? 2 : 1;
  static constexpr int kStages = kOf == Code::hopper ? kOfHopper : kOfOthers;
  uint4 stage[kStages][3][kPacks][kThreads];  // of x, of dy, of what is added
};

template <int kPacks, int kThreads, bool kCentred, class T>
__global__ __launch_bounds__(kThreads, 1) void backward_kernel(Backward<T> a, int group) {
  constexpr int N = kWide<T>;
  using Rows = Ring<kPacks, kThreads>;
  extern __shared__ uint4 dynamic[];
  auto& ring = *reinterpret_cast<Rows*>(dynamic);
  __shared__ float2 shared[2][kThreads / 32];
  const int groups = static_cast<int>(blockDim.x) / group;
  const int mine = static_cast<int>(threadIdx.x) / group, t = static_cast<int>(threadIdx.x) % group;
  const std::int64_t stride = std::int64_t{gridDim.x} * groups;
  const float inv_cols = 1 / float(a.cols);
  const auto column = [&](int p) { return (t + std::int64_t{p} * group) * N; };
  Pack<T, N> w[kPacks];
  float dw[kPacks][N] = {}, db[kPacks][N] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (column(p) < a.cols) w[p] = load<N>(a.w + column(p));
  const auto fetch = [&](int stage, std::int64_t row) {
    if (row < a.rows) {
      const std::int64_t at = row * a.cols + column(0);
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (column(p) < a.cols) {
          const std::int64_t i = at + p * group * N;
          copy_16_bytes(&ring.stage[stage][0][p][threadIdx.x], a.x + i);
          copy_16_bytes(&ring.stage[stage][1][p][threadIdx.x], a.dy + i);
          if (a.add) copy_16_bytes(&ring.stage[stage][2][p][threadIdx.x], a.add + i);
        }
    }
    copies_commit();
  };
  std::int64_t row = blockIdx.x * std::int64_t{groups} + mine;
  for (int s = 0; s + 1 < Rows::kStages; ++s) fetch(s, row + s * stride);
  float mean = 0, rstd = 0, next_mean = 0, next_rstd = 0;
  const auto fetch_statistics = [&](std::int64_t of_row) {
    if (of_row >= a.rows) return;
    if constexpr (kCentred) next_mean = a.mean[of_row];
    next_rstd = a.rstd[of_row];
  };
  fetch_statistics(row);
  int stage = 0, parity = 0;
  // All threads of the block go round equally often.
  for (; row - mine < a.rows;
       row += stride, parity ^= 1, stage = stage + 1 == Rows::kStages ? 0 : stage + 1) {
    mean = next_mean, rstd = next_rstd;
    fetch_statistics(row + stride);
    const int last = stage == 0 ? Rows::kStages - 1 : stage - 1;  // which was worked on before
    fetch(last, row + (Rows::kStages - 1) * stride);
    copies_wait<Rows::kStages - 1>();
    const float shift = -mean * rstd;  // h = x rstd + shift
    keep_packed(w);
    Pack<T, N> x[kPacks], dy[kPacks];
    float2 sums = {0, 0};
    const bool in_rows = row < a.rows;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!in_rows || column(p) >= a.cols) continue;
      x[p] = load<N>(reinterpret_cast<const T*>(&ring.stage[stage][0][p][threadIdx.x]));
      dy[p] = load<N>(reinterpret_cast<const T*>(&ring.stage[stage][1][p][threadIdx.x]));
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float g = dy[p][n] * w[p][n];
        if constexpr (kCentred) sums.x += g;
        sums.y += g * (x[p][n] * rstd + shift);
      }
    }
    sums = over_group(sums, group, 1 + mine, shared[parity] + mine * (group / 32));
    if (!in_rows) continue;
    keep_packed(w);
    keep_packed(x);
    keep_packed(dy);
    const float from_g = -rstd * sums.x * inv_cols, from_gh = -rstd * sums.y * inv_cols;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) >= a.cols) continue;
      float dx[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float d = dy[p][n], h = x[p][n] * rstd + shift;
        dw[p][n] += d * h;
        if constexpr (kCentred) db[p][n] += d;
        dx[n] = d * w[p][n] * rstd + (h * from_gh + from_g);
      }
      if (a.add) {
        const auto add = load<N>(reinterpret_cast<const T*>(&ring.stage[stage][2][p][threadIdx.x]));
#pragma unroll
        for (int n = 0; n < N; ++n) dx[n] += add[n];
      }
      store(a.dx + row * a.cols + column(p), dx);
    }
  }
  copies_wait<0>();
  __syncthreads();
  auto* columns = reinterpret_cast<float*>(dynamic);
  float* part = a.part + blockIdx.x * (kCentred ? 2 : 1) * a.cols;
  store_part(part, dw, group, a.cols, columns);
  if constexpr (kCentred)
    store_part(part + a.cols, db, group, a.cols, columns + kThreads * kPacks * N);
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
      const float dx = rstd * (d * to_float(a.w[c]) - mean_g - h * mean_gh);
      a.dx[row * a.cols + c] = static_cast<T>(dx + (a.add ? to_float(a.add[row * a.cols + c]) : 0));
    }
    __syncthreads();
  }
}

inline std::size_t backward_work(std::int64_t rows, std::int64_t cols, bool centred) {
  return static_cast<std::size_t>(parts(rows) * cols * (centred ? 2 : 1)) * sizeof(float);
}

// False, and nothing is launched, where a block of the code that runs has no room for it.
template <int kPacks, int kThreads, bool kCentred, class T>
bool launch_backward(const Backward<T>& a, cudaStream_t stream) {
  const int group = group_size(a.cols / kWide<T>, kPacks), groups = kThreads / group;
  const auto kernel = backward_kernel<kPacks, kThreads, kCentred, T>;
  return with_code([&]<Code kOf>() {
    // The ring, in whose place dw and db of all threads are added up, and what has its own place.
    constexpr std::size_t kSums = sizeof(float) * kThreads * kPacks * kWide<T> * (kCentred ? 2 : 1);
    constexpr std::size_t kShared = std::max(sizeof(Ring<kPacks, kThreads, kOf>), kSums);
    if (kShared + 1024 > kSharedBytes<kOf>) return false;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    kernel<<<static_cast<unsigned>(parts(a.rows)), groups * group, kShared, stream>>>(a, group);
    return true;
  });
}

template <bool kCentred, class T, class G>
void backward(const Backward<T>& a, G* dw, G* db, cudaStream_t stream) {
  if (a.rows == 0 || a.cols == 0) return;
  const std::int64_t packs = a.cols / kWide<T>;
  const bool wide = aligned(a.dx, a.dy, a.x, a.w) && a.cols % kWide<T> == 0;
  const bool of_a_warp = packs > 64 && packs <= 96;
  const bool launched = wide && ((of_a_warp && launch_backward<3, 512, kCentred>(a, stream)) ||
                                 (packs <= 1024 && launch_backward<2, 512, kCentred>(a, stream)) ||
                                 (packs <= 2048 && launch_backward<4, 512, kCentred>(a, stream)));
  if (!launched)
    backward_any_kernel<kCentred><<<static_cast<unsigned>(parts(a.rows)), 512, 0, stream>>>(a);
  check(cudaGetLastError());
  add_parts(dw, db, a.part, parts(a.rows), a.cols, stream);
}

}  // namespace mt::cuda::norm
