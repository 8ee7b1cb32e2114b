// kernels/norm_forward.cuh: the forward of LayerNorm (kCentred) and RMSNorm (mean 0, no b) in one,
// for layer_norm_cuda.cu and rms_norm_cuda.cu.
//
// A row lies in the registers of a few lanes, of a warp, or of the warps of a block, its packs
// dealt out in turns, at most four to a lane: so many that while some warps add up or write,
// others' rows are on their way.  LayerNorm has five or seven where a warp does alone what would
// leave many lanes of two without work.  Rows that do not fit, or whose packs are not aligned, take
// the `any` kernel, which reads them several times.
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

// Part: what is known of a part of a row: how many elements it has, their mean, and the sum of
// their squared differences from that.
struct alignas(16) Part {
  float count, mean, squares;
};

// From the parts of a row's warps: its mean, and the mean of squared differences from it.  Without
// kCentred means are 0, and squares are those of the elements.
template <bool kCentred>
__device__ float2 over_warps(const Part& own, float inv_cols, Part* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
  __syncthreads();
  float mean = 0, squares = 0;
  if constexpr (kCentred) {
    for (int w = 0; w < warps; ++w) mean += shared[w].count * shared[w].mean;
    mean *= inv_cols;
  }
  for (int w = 0; w < warps; ++w) {
    const Part part = shared[w];
    squares += part.squares;
    if constexpr (kCentred) squares += part.count * (part.mean - mean) * (part.mean - mean);
  }
  return {mean, squares * inv_cols};
}

inline constexpr int kMostLanes = 1024;  // of a row
template <int kLanes>
inline constexpr int kMostThreads = kLanes > 32 ? kMostLanes : 128;  // of a block
template <int kPacks>
inline constexpr int kResidentThreads = kPacks > 4 ? 768 : 1024;  // of a multiprocessor, at least

// A thread has kPacks packs of each of kRows rows, kLanes neighbours have the rest; with kMostLanes
// a block has a row.  All packs but a thread's last are within the row.
template <int kPacks, int kRows, int kLanes, bool kCentred, class T>
__global__ __launch_bounds__(kMostThreads<kLanes>,
                             kResidentThreads<kPacks> /
                                 kMostThreads<kLanes>) void forward_kernel(Forward<T> a) {
  constexpr int N = kWide<T>;
  constexpr bool kBlock = kLanes > 32, kLate = kCentred && kPacks > 3;
  constexpr int kNeighbours = kBlock ? 1 : 32 / kLanes;  // rows side by side in a warp
  const int t = static_cast<int>(threadIdx.x) % kLanes;
  const int lanes = kBlock ? static_cast<int>(blockDim.x) : kLanes;
  const std::int64_t warp = blockIdx.x * std::int64_t{kMostThreads<kLanes> / 32} + threadIdx.x / 32;
  const std::int64_t first_row =
      kBlock ? blockIdx.x : warp * kNeighbours * kRows + threadIdx.x % 32 / kLanes;
  const auto row = [&](int r) { return first_row + r * kNeighbours; };
  constexpr bool kAlone = kRows == 1 && kLanes >= 32;
  if (kAlone && first_row >= a.rows) return;
  const auto exists = [&](int r) { return kAlone || row(r) < a.rows; };
  const auto in_row = [&](int p) { return p + 1 < kPacks || (t + p * lanes) * N < a.cols; };
  // Where there is no such pack or row, another is read and not used.
  const int first = in_row(0) ? t * N : 0;
  const auto step = [&](int p) { return in_row(p) ? p * lanes * N : 0; };
  Pack<T, N> x[kRows][kPacks], w[kPacks], b[kPacks];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const T* of_row = a.x + (exists(r) ? row(r) : 0) * a.cols + first;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      x[r][p] = load<N>(of_row + step(p));
      if (!in_row(p)) x[r][p] = {};
    }
  }
  const T *of_w = a.w + first, *of_b = a.b + first;
  const auto fetch_weights = [&](int p) {
    w[p] = load<N>(of_w + step(p));
    if constexpr (kCentred) b[p] = load<N>(of_b + step(p));
  };
  // Here already, as behind the sums nothing would hide their way; but many would leave room for
  // too few rows.
  if constexpr (!kLate)
#pragma unroll
    for (int p = 0; p < kPacks; ++p) fetch_weights(p);

  const float inv_cols = 1 / float(a.cols);
  float count = float(a.cols), inv_count = inv_cols;  // of the warp's part of a row
  if constexpr (kBlock) {
    count = float(N * ((kPacks - 1) * 32 + __popc(__ballot_sync(0xffffffff, in_row(kPacks - 1)))));
    inv_count = 1 / count;
  }
  float mean[kRows] = {}, squares[kRows] = {};
  if constexpr (kCentred) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
#pragma unroll
        for (int n = 0; n < N; ++n) mean[r] += x[r][p][n];
#pragma unroll
    for (int r = 0; r < kRows; ++r) mean[r] = over_lanes(mean[r], kBlock ? 32 : kLanes) * inv_count;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    keep_packed(x[r]);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      float of_pack = 0;
#pragma unroll
      for (int n = 0; n < N; ++n) of_pack += (x[r][p][n] - mean[r]) * (x[r][p][n] - mean[r]);
      squares[r] += in_row(p) ? of_pack : 0;
    }
    keep_packed(x[r]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) squares[r] = over_lanes(squares[r], kBlock ? 32 : kLanes);

  float rstd[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float2 of_row = {mean[r], squares[r] * inv_cols};
    if constexpr (kBlock) {
      __shared__ Part shared[kMostLanes / 32];
      of_row = over_warps<kCentred>({count, mean[r], squares[r]}, inv_cols, shared);
    }
    mean[r] = of_row.x, rstd[r] = rsqrtf(of_row.y + a.eps);
  }
  float own_mean = mean[0], own_rstd = rstd[0];  // of row t
#pragma unroll
  for (int r = 1; r < kRows; ++r)
    if (t == r) own_mean = mean[r], own_rstd = rstd[r];
  if (t < kRows && exists(t)) {
    if constexpr (kCentred) a.mean[row(t)] = own_mean;
    a.rstd[row(t)] = own_rstd;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    T* y = a.y + row(r) * a.cols + first;
    const float shift = -mean[r] * rstd[r];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if constexpr (kLate) fetch_weights(p);
      float of_pack[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        of_pack[n] = (x[r][p][n] * rstd[r] + shift) * w[p][n];
        if constexpr (kCentred) of_pack[n] += b[p][n];
      }
      if (exists(r) && in_row(p)) store(y + step(p), of_pack);
    }
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

template <int kPacks, int kRows, int kLanes, bool kCentred, class T>
void launch_forward(const Forward<T>& a, std::int64_t lanes, cudaStream_t stream) {
  constexpr bool kBlock = kLanes > 32;
  const std::int64_t threads = kBlock ? lanes : kMostThreads<kLanes>;
  const std::int64_t blocks = kBlock ? a.rows : ceil_div(a.rows, threads / lanes * kRows);
  forward_kernel<kPacks, kRows, kLanes, kCentred>
      <<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(a);
}

template <bool kCentred, class T>
void forward(const Forward<T>& a, cudaStream_t stream) {
  if (a.rows == 0 || a.cols == 0) return;
  const std::int64_t packs = a.cols / kWide<T>;
  const auto rows = [&]<int kLanes>() {
    launch_forward<1, 4, kLanes, kCentred>(a, kLanes, stream);
  };
  const auto row = [&]<int kLanes>(std::int64_t lanes) {
    if (packs <= 3 * lanes)
      launch_forward<3, 1, kLanes, kCentred>(a, lanes, stream);
    else
      launch_forward<4, 1, kLanes, kCentred>(a, lanes, stream);
  };
  const auto alone = [&]<int kPacks>() {
    if constexpr (kCentred) launch_forward<kPacks, 1, 32, true>(a, 32, stream);
  };
  if (!aligned(a.y, a.x, a.w, a.b) || a.cols % kWide<T> != 0 || packs > 4 * kMostLanes)
    forward_any_kernel<kCentred><<<static_cast<unsigned>(a.rows), 512, 0, stream>>>(a);
  else if (packs <= 8)
    rows.template operator()<8>();
  else if (packs <= 16)
    rows.template operator()<16>();
  else if (packs <= 32)
    rows.template operator()<32>();
  else if (packs <= 64)
    row.template operator()<16>(16);
  else if (packs <= 128)
    row.template operator()<32>(32);
  else if (kCentred && packs <= 5 * 32)
    alone.template operator()<5>();
  else if (kCentred && packs > 6 * 32 && packs <= 7 * 32)
    alone.template operator()<7>();
  else
    row.template operator()<kMostLanes>(ceil_div(packs, 128) * 32);
  check(cudaGetLastError());
}

}  // namespace mt::cuda::norm
