// The sums of kernels/elementwise.h.
#include "kernels/elementwise.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// --- Sums over columns --------------------------------------------------------------------------

constexpr int kWarps = kThreads / 32;

// Rows [part rows_per_part, ...) of 32 N columns, the rows over warps; warps are added in order.
template <int N, class T>
__global__ __launch_bounds__(kThreads) void column_sum_kernel(float* part, const T* x,
                                                              std::int64_t rows, std::int64_t cols,
                                                              std::int64_t rows_per_part) {
  constexpr int kUnroll = 4;
  __shared__ float shared[kWarps][32 * N];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t col = (blockIdx.x * std::int64_t{32} + lane) * N;
  const std::int64_t begin = blockIdx.y * rows_per_part, end = min(rows, begin + rows_per_part);
  float total[N] = {};
  if (col < cols) {
    for (std::int64_t r = begin + warp; r < end; r += kWarps * kUnroll) {
      Pack<T, N> packs[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (r + u * kWarps < end) packs[u] = load<N>(x + (r + u * kWarps) * cols + col);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (r + u * kWarps < end)
#pragma unroll
          for (int n = 0; n < N; ++n) total[n] += packs[u][n];
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n) shared[warp][n * 32 + lane] = total[n];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 32 * N; i += kThreads) {
    const std::int64_t c = (blockIdx.x * std::int64_t{32} + i % 32) * N + i / 32;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[w][i];
    if (c < cols) part[blockIdx.y * cols + c] = sum;
  }
}

struct ColumnParts {
  std::int64_t parts, rows_per_part;
  explicit ColumnParts(std::int64_t rows) {
    constexpr std::int64_t kMost = 128, kFewestRows = 64;
    rows_per_part = max(kFewestRows, ceil_div(rows, kMost));
    parts = ceil_div(rows, rows_per_part);
  }
};

// 32 columns of a block; its warps take parts in turn.
constexpr int kPartWarps = 32;
template <class G>
__global__ __launch_bounds__(32 * kPartWarps) void add_parts_kernel(G* y, G* y2, const float* part,
                                                                    std::int64_t parts,
                                                                    std::int64_t cols) {
  __shared__ float shared[kPartWarps][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = blockIdx.x * std::int64_t{32}, width = y2 ? 2 * cols : cols;
  float total = 0;
  if (first + lane < width)
    for (std::int64_t p = warp; p < parts; p += kPartWarps) total += part[p * width + first + lane];
  shared[warp][lane] = total;
  __syncthreads();
  total = over_lanes(shared[lane][warp]);
  const std::int64_t c = first + warp;
  if (lane != 0 || c >= width) return;
  G* to = c < cols ? y + c : y2 + (c - cols);
  *to = static_cast<G>(to_float(*to) + total);
}

// --- Sums over everything -----------------------------------------------------------------------

constexpr std::int64_t kMostParts = 1024;

struct Square {
  static constexpr bool kTwo = false;  // operands
  __device__ double operator()(float a, float) const { return double(a) * double(a); }
};
struct Product {
  static constexpr bool kTwo = true;
  __device__ double operator()(float a, float b) const { return double(a) * double(b); }
};
struct IsZero {
  static constexpr bool kTwo = false;
  __device__ double operator()(float a, float) const { return a == 0; }
};
struct IsNotFinite {
  static constexpr bool kTwo = false;
  __device__ double operator()(float a, float) const { return !isfinite(a); }
};

struct AsDouble {
  __device__ double operator()(double sum) const { return sum; }
};
struct IsNone {
  __device__ std::int32_t operator()(double sum) const { return sum == 0; }
};

// part[block]: the sum of f over the packs that are the block's in turn.
template <int N, class T, class F>
__global__ __launch_bounds__(kThreads) void sum_kernel(double* part, const T* a, const T* b,
                                                       std::int64_t count, F f) {
  constexpr int kUnroll = 4;
  __shared__ double shared[kThreads / 32];
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * N;
  std::int64_t i = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * N;
  double total = 0;
  const auto add_pack = [&](const Pack<T, N>& x, const Pack<T, N>& y) {
#pragma unroll
    for (int n = 0; n < N; ++n) total += f(x[n], F::kTwo ? y[n] : 0);
  };
  for (; i + (kUnroll - 1) * step + N <= count; i += kUnroll * step) {
    Pack<T, N> x[kUnroll], y[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      x[u] = load<N>(a + i + u * step);
      if constexpr (F::kTwo) y[u] = load<N>(b + i + u * step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add_pack(x[u], F::kTwo ? y[u] : x[u]);
  }
  for (; i < count; i += step)
    for (std::int64_t j = i; j < min(i + N, count); ++j)
      total += f(to_float(a[j]), F::kTwo ? to_float(b[j]) : 0);
  total = over_block(total, shared);
  if (threadIdx.x == 0) part[blockIdx.x] = total;
}

template <class Out, class Finish>
__global__ __launch_bounds__(kThreads) void finish_kernel(Out* out, const double* part, int parts,
                                                          Finish finish) {
  __shared__ double shared[kThreads / 32];
  double total = 0;
  for (int p = static_cast<int>(threadIdx.x); p < parts; p += kThreads) total += part[p];
  total = over_block(total, shared);
  if (threadIdx.x == 0) *out = finish(total);
}

// Steele, Lea, Flood: doi:10.1145/2660193.2660195, as published with Stafford's constants.
__device__ std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Sums of integers are the same in any order.
__global__ __launch_bounds__(kThreads) void digest_kernel(unsigned long long* digest,
                                                          const std::uint16_t* x,
                                                          std::int64_t count) {
  unsigned long long total = 0;
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads)
    total += mix(mix(static_cast<std::uint64_t>(i)) + x[i]);
  total = over_lanes(total);
  if (threadIdx.x % 32 == 0) atomicAdd(digest, total);
}

__global__ void add_up_kernel(double* sum, const double* x, std::int64_t count) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += x[i];
  *sum = total;
}

int sum_parts(std::int64_t count) {
  return static_cast<int>(min(kMostParts, ceil_div(count, std::int64_t{kThreads} * 16)));
}

template <class Out, class T, class F, class Finish>
void sum(Out* out, const T* a, const T* b, std::int64_t count, const F& f, const Finish& finish,
         void* work, cudaStream_t stream) {
  const int parts = sum_parts(count);
  double* part = static_cast<double*>(work);
  if (parts > 0)
    with_width<kWide<T>>(aligned(a, b), [&]<int N>() {
      sum_kernel<N><<<parts, kThreads, 0, stream>>>(part, a, b, count, f);
    });
  finish_kernel<<<1, kThreads, 0, stream>>>(out, part, parts, finish);
  check(cudaGetLastError());
}

}  // namespace

template <class G>
void add_parts(G* y, G* y2, const float* part, std::int64_t parts, std::int64_t cols,
               cudaStream_t stream) {
  if (parts == 0 || cols == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(y2 ? 2 * cols : cols, 32));
  add_parts_kernel<<<blocks, 32 * kPartWarps, 0, stream>>>(y, y2, part, parts, cols);
  check(cudaGetLastError());
}

std::size_t column_sum_work(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(ColumnParts(rows).parts * cols) * sizeof(float);
}

template <class T, class G>
void column_sum(G* y, const T* x, std::int64_t rows, std::int64_t cols, void* work,
                cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  const ColumnParts p(rows);
  float* part = static_cast<float*>(work);
  with_width<kWide<T>>(aligned(x) && cols % kWide<T> == 0, [&]<int N>() {
    const dim3 grid(static_cast<unsigned>(ceil_div(cols, 32 * N)), static_cast<unsigned>(p.parts));
    column_sum_kernel<N><<<grid, kThreads, 0, stream>>>(part, x, rows, cols, p.rows_per_part);
  });
  check(cudaGetLastError());
  add_parts<G>(y, nullptr, part, p.parts, cols, stream);
}

std::size_t sum_work(std::int64_t count) {
  return static_cast<std::size_t>(sum_parts(count)) * sizeof(double);
}

template <class T>
void sum_squares(double* out, const T* x, std::int64_t count, void* work, cudaStream_t stream) {
  sum(out, x, x, count, Square{}, AsDouble{}, work, stream);
}
template <class T>
void count_zeros(double* zeros, const T* x, std::int64_t count, void* work, cudaStream_t stream) {
  sum(zeros, x, x, count, IsZero{}, AsDouble{}, work, stream);
}
template <class T>
void all_finite(std::int32_t* finite, const T* x, std::int64_t count, void* work,
                cudaStream_t stream) {
  sum(finite, x, x, count, IsNotFinite{}, IsNone{}, work, stream);
}
void dot(double* out, const float* a, const float* b, std::int64_t count, void* work,
         cudaStream_t stream) {
  sum(out, a, b, count, Product{}, AsDouble{}, work, stream);
}

void add_up(double* sum, const double* x, std::int64_t count, cudaStream_t stream) {
  add_up_kernel<<<1, 1, 0, stream>>>(sum, x, count);
  check(cudaGetLastError());
}

void digest(std::uint64_t* digest, const std::uint16_t* x, std::int64_t count,
            cudaStream_t stream) {
  check(cudaMemsetAsync(digest, 0, sizeof *digest, stream));
  const auto blocks = static_cast<unsigned>(min(kMostParts, ceil_div(count, kThreads)));
  if (count > 0)
    digest_kernel<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<unsigned long long*>(digest), x,
                                                   count);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                         \
  template void column_sum(float*, const T*, std::int64_t, std::int64_t, void*, cudaStream_t); \
  template void sum_squares(double*, const T*, std::int64_t, void*, cudaStream_t);             \
  template void count_zeros(double*, const T*, std::int64_t, void*, cudaStream_t);             \
  template void all_finite(std::int32_t*, const T*, std::int64_t, void*, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
template void column_sum(bf16*, const bf16*, std::int64_t, std::int64_t, void*, cudaStream_t);
template void column_sum(bf16*, const float*, std::int64_t, std::int64_t, void*, cudaStream_t);
template void add_parts(float*, float*, const float*, std::int64_t, std::int64_t, cudaStream_t);
template void add_parts(bf16*, bf16*, const float*, std::int64_t, std::int64_t, cudaStream_t);

}  // namespace mt::cuda
