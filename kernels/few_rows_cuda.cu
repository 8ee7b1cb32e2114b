// Few rows on the GPU.  16-bit types in whole units of 16 bytes go to the matrix units, b's rows
// being the left operand: a block takes tiles of 16 rows of b, each of its warps every eighth run
// of 64 of their elements.  What a warp will multiply next lies in its registers, fetched before
// the kernel ahead has ended.  a lies in shared memory, normalised.  Other types and places take a
// plain kernel, a warp for a row of b.
#include <algorithm>

#include "kernels/dependent.cuh"
#include "kernels/fast_math.cuh"
#include "kernels/few_rows.h"
#include "kernels/ptx.cuh"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kRun = 64;                        // elements of a row that a warp takes at a time
constexpr int kAhead = 4;                       // runs in registers
constexpr int kRound = kRun * kWarps * kAhead;  // elements of a row that a block takes at a time
constexpr int kPad = 32;                        // elements between rows of a in shared memory
constexpr std::size_t kMostHeld = 96 << 10;     // bytes of a in shared memory

__device__ float gelu(float z) {
  return z * sigmoid(1.5957691216057308f * z * (1 + 0.044715f * z * z));
}

// What is added to elements (i, j) and (i, other): fetched before their sums are there.
struct Added {
  float bias[2] = {}, residual[2] = {};

  template <class T, class C>
  __device__ Added(const FewRows<T, C>& p, std::int64_t i, std::int64_t j, std::int64_t other) {
    const std::int64_t column[2] = {j, other};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (i >= p.m || column[r] >= p.n) continue;
      if (p.bias) bias[r] = to_float(p.bias[column[r]]);
      if (p.residual) residual[r] = to_float(p.residual[i * p.n + column[r]]);
    }
  }
};

// c and at from the sum z of element (i, j).
template <class T, class C>
__device__ void finish(const FewRows<T, C>& p, std::int64_t i, std::int64_t j, float z, float bias,
                       float residual) {
  if (j >= p.n) return;
  z += bias;
  const std::int64_t place = i * p.n + j;
  if (p.at) p.at[place] = static_cast<T>(z);
  if (p.then == FewRows<T, C>::Then::gelu) z = gelu(z);
  if (p.residual) z += residual;
  p.c[place] = static_cast<C>(z);
}
// ... of elements (i, j) and (i, n/2 + j).
template <class T, class C>
__device__ void finish_swiglu(const FewRows<T, C>& p, std::int64_t i, std::int64_t j, float gate,
                              float up, const Added& added) {
  const std::int64_t half = p.n / 2;
  if (j >= half) return;
  gate += added.bias[0];
  up += added.bias[1];
  if (p.at) {
    p.at[i * p.n + j] = static_cast<T>(gate);
    p.at[i * p.n + half + j] = static_cast<T>(up);
  }
  p.c[i * half + j] = static_cast<C>(gate * sigmoid(gate) * up);
}

// Read once by the whole GPU.
__device__ uint4 load_stream(const void* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

constexpr int kUnit = 8;  // elements of 16 bytes

template <int kTiles>
struct alignas(16) Shared {
  float part[2][kWarps][kTiles][32][4];  // sums of the warps, by turns
  float sums[kFewRows][kWarps];          // of the norm
  float mean[kFewRows], rstd[kFewRows];
};

// The sum over each row of f(element, row), in `sums`; all threads, each the same elements whatever
// m is.
template <class T, class F>
__device__ void row_sums(float (&sums)[kFewRows][kWarps], const T* rows, int stride, int m, int k,
                         const F& f) {
  for (int i = 0; i < m; ++i) {
    float sum = 0;
    for (int x = threadIdx.x * kUnit; x < k; x += kThreads * kUnit) {
      const auto pack = load<kUnit>(rows + std::int64_t{i} * stride + x);
#pragma unroll
      for (int n = 0; n < kUnit; ++n) sum += f(pack[n], i);
    }
    sum = over_lanes(sum);
    if (threadIdx.x % 32 == 0) sums[i][threadIdx.x / 32] = sum;
  }
  __syncthreads();
}
__device__ inline float total(const float (&sums)[kWarps]) {
  float sum = 0;
#pragma unroll
  for (const float part : sums) sum += part;
  return sum;
}

// Mean and rstd of rows that lie `stride` apart.
template <class T, class C, class Memory>
__device__ void measure_rows(const FewRows<T, C>& p, const T* rows, int stride, Memory& shared) {
  const int i = threadIdx.x, m = static_cast<int>(p.m), k = static_cast<int>(p.k);
  const float count = static_cast<float>(k);
  if (p.norm.centred) {
    row_sums(shared.sums, rows, stride, m, k, [](float x, int) { return x; });
    if (i < m) shared.mean[i] = total(shared.sums[i]) / count;
    __syncthreads();
    row_sums(shared.sums, rows, stride, m, k, [&](float x, int row) {
      const float centred = x - shared.mean[row];
      return centred * centred;
    });
  } else {
    if (i < m) shared.mean[i] = 0;
    row_sums(shared.sums, rows, stride, m, k, [](float x, int) { return x * x; });
  }
  if (i < m) shared.rstd[i] = rsqrtf(total(shared.sums[i]) / count + p.norm.eps);
  __syncthreads();
}

// A unit of a row, normalised; w and shift: where those of its place are.
template <class T, class C>
__device__ Pack<T, kUnit> normal(const FewRows<T, C>& p, const Pack<T, kUnit>& a, const T* w,
                                 const T* shift, float mean, float rstd) {
  const auto scale = load<kUnit>(w);
  float y[kUnit];
#pragma unroll
  for (int n = 0; n < kUnit; ++n) y[n] = (a[n] - mean) * rstd * (scale[n] + p.norm.offset);
  if (p.norm.shift) {
    const auto added = load<kUnit>(shift);
#pragma unroll
    for (int n = 0; n < kUnit; ++n) y[n] += added[n];
  }
  return Pack<T, kUnit>::of(y);
}

// All of a in shared memory, `width` elements a row and kPad behind, zeros past its end; behind it
// the norm's w and shift, which are fetched ahead of the kernel before.
template <class T, class C>
struct Held {
  const FewRows<T, C>& p;
  T* const rows;
  const int width, stride;
  T *const w, *const shift;

  __device__ Held(const FewRows<T, C>& problem, T* memory, int row_width)
      : p(problem),
        rows(memory),
        width(row_width),
        stride(row_width + kPad),
        w(memory + problem.m * stride),
        shift(w + row_width) {}

  __device__ void fetch_norm() const {
    if (p.norm.w == nullptr) return;
    for (int x = threadIdx.x * kUnit; x < p.k; x += kThreads * kUnit) {
      copy_16_bytes(w + x, p.norm.w + x);
      if (p.norm.shift) copy_16_bytes(shift + x, p.norm.shift + x);
    }
  }
  template <class Memory>
  __device__ void fill(Memory& shared) const {
    for (int i = 0; i < p.m; ++i)
      for (int x = threadIdx.x * kUnit; x < width; x += kThreads * kUnit) {
        T* const to = rows + i * stride + x;
        if (x < p.k)
          copy_16_bytes(to, p.a + i * p.k + x);
        else
          *reinterpret_cast<uint4*>(to) = uint4{};
      }
    copies_commit();
    copies_wait();
    __syncthreads();
    if (p.norm.w == nullptr) return;
    measure_rows(p, rows, stride, shared);
    for (int i = 0; i < p.m; ++i)
      for (int x = threadIdx.x * kUnit; x < p.k; x += kThreads * kUnit) {
        T* const place = rows + i * stride + x;
        store(place,
              normal(p, load<kUnit>(place), w + x, shift + x, shared.mean[i], shared.rstd[i]));
      }
    __syncthreads();
  }
};

// A round of a in shared memory: kRound elements of each row from `first` on, zeros past its end.
template <class T, class C, class Memory>
__device__ void fill_round(T* to, const FewRows<T, C>& p, const Memory& shared, int first) {
  constexpr int kUnits = kRound / kUnit;
  for (int u = threadIdx.x; u < p.m * kUnits; u += kThreads) {
    const int i = u / kUnits, x = first + u % kUnits * kUnit;
    T* const place = to + i * (kRound + kPad) + u % kUnits * kUnit;
    if (x >= p.k) {
      *reinterpret_cast<uint4*>(place) = uint4{};
      continue;
    }
    const auto a = load<kUnit>(p.a + i * p.k + x);
    store(place, p.norm.w
                     ? normal(p, a, p.norm.w + x, p.norm.shift + x, shared.mean[i], shared.rstd[i])
                     : a);
  }
}

// Of a tile's 16 rows, a thread has row lane / 4 and the eighth behind it, of which it reads units
// of 8 elements.
template <class T>
struct Rows {
  const T *first, *second;

  template <class C>
  __device__ Rows(const FewRows<T, C>& p, std::int64_t tile) {
    const int row = threadIdx.x % 32 / 4;
    const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
    const std::int64_t one = swiglu ? tile * 8 + row : tile * 16 + row;
    const std::int64_t other = swiglu ? p.n / 2 + one : one + 8;
    first = p.b + min(one, p.n - 1) * p.k;
    second = p.b + min(other, p.n - 1) * p.k;
  }
};

template <int kTiles, class T, class C>
__global__ __launch_bounds__(kThreads, 2) void matrix_kernel(const FewRows<T, C> p, int tiles,
                                                             int held) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kTiles>*>(bytes);
  T* const a = reinterpret_cast<T*>(bytes + sizeof(Shared<kTiles>));
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rounds = (static_cast<int>(p.k) + kRound - 1) / kRound;
  const int offset = warp * kRun + lane % 4 * 8;  // of this thread's units in a run of all warps

  uint4 ahead[kAhead][2][2];  // [row of Rows][half of the run]
  const auto fetch = [&](uint4(&run)[2][2], const Rows<T>& rows, int round, int n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int x = round * kRound + n * kRun * kWarps + offset + half * 32;
      run[0][half] = x < p.k ? load_stream(rows.first + x) : uint4{};
      run[1][half] = x < p.k ? load_stream(rows.second + x) : uint4{};
    }
  };
  {
    const Rows<T> rows(p, blockIdx.x);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) fetch(ahead[n], rows, 0, n);
  }
  // Either all of a is held, or a round of it at a time.
  const bool whole = held >= rounds;
  const int width = held * kRound, stride = width + kPad;
  const Held<T, C> all(p, a, width);
  if (whole) all.fetch_norm();
  let_next_kernel_begin();
  wait_for_kernel_before();
  if (whole)
    all.fill(shared);
  else if (p.norm.w)
    measure_rows(p, p.a, static_cast<int>(p.k), shared);

  // The place in the tile that this thread finishes.
  const int t = threadIdx.x / 64, place = threadIdx.x % 64 / 2, column = threadIdx.x % 2;
  const int i = t < kTiles ? t * 8 + place % 4 * 2 + column : kFewRows;
  int turn = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn ^= 1) {
    const std::int64_t j = std::int64_t{tile} * (swiglu ? 8 : 16) + place / 4;
    const Added added(p, i, j, swiglu ? p.n / 2 + j : j + 8);
    float sums[kTiles][4] = {};
    for (int round = 0; round < rounds; ++round) {
      if (!whole) {
        __syncthreads();
        fill_round(a, p, shared, round * kRound);
        __syncthreads();
      }
      const T* const from = a + (whole ? round * kRound : 0) + offset;
      const bool last = round + 1 == rounds;
      const int next_tile = last ? tile + gridDim.x : tile, next_round = last ? 0 : round + 1;
      const Rows<T> next(p, next_tile);
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 &one = ahead[n][0][half], &other = ahead[n][1][half];
#pragma unroll
          for (int r = 0; r < kTiles; ++r) {
            const int row = r * 8 + lane / 4;
            uint4 x = {};
            if (row < p.m)
              x = *reinterpret_cast<const uint4*>(from + row * stride + n * kRun * kWarps +
                                                  half * 32);
            mma<T>(sums[r], {one.x, other.x, one.y, other.y}, x.x, x.y);
            mma<T>(sums[r], {one.z, other.z, one.w, other.w}, x.z, x.w);
          }
        }
        if (next_tile < tiles) fetch(ahead[n], next, next_round, n);
      }
    }
#pragma unroll
    for (int r = 0; r < kTiles; ++r)
      *reinterpret_cast<float4*>(shared.part[turn][warp][r][lane]) =
          make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
    __syncthreads();
    if (i < p.m) {
      float z[2] = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        for (int r = 0; r < 2; ++r) z[r] += shared.part[turn][w][t][place][2 * r + column];
      if (swiglu) {
        finish_swiglu(p, i, j, z[0], z[1], added);
      } else {
        finish(p, i, j, z[0], added.bias[0], added.residual[0]);
        finish(p, i, j + 8, z[1], added.bias[1], added.residual[1]);
      }
    }
    __syncwarp();
  }
}

// A warp for element j of all rows (and of silu for n/2 + j).
template <int N, class T, class C>
__global__ __launch_bounds__(kThreads) void plain_kernel(const FewRows<T, C> p) {
  wait_for_kernel_before();
  let_next_kernel_begin();
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  const std::int64_t j = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  const std::int64_t half = p.n / 2;
  if (j >= (swiglu ? half : p.n)) return;
  const auto dot = [&](std::int64_t i, std::int64_t row) {
    float sum = 0;
    for (std::int64_t x = threadIdx.x % 32 * N; x < p.k; x += 32 * N) {
      const auto a = load<N>(p.a + i * p.k + x);
      const auto b = load<N>(p.b + row * p.k + x);
#pragma unroll
      for (int n = 0; n < N; ++n) sum += a[n] * b[n];
    }
    return over_lanes(sum);
  };
  for (std::int64_t i = 0; i < p.m; ++i) {
    const float z = dot(i, j), up = swiglu ? dot(i, half + j) : 0;
    if (threadIdx.x % 32 == 0) {
      const Added added(p, i, j, half + j);
      if (swiglu)
        finish_swiglu(p, i, j, z, up, added);
      else
        finish(p, i, j, z, added.bias[0], added.residual[0]);
    }
    __syncwarp();
  }
}

template <class T, class C>
bool whole_units(const FewRows<T, C>& p) {
  return p.k % (16 / sizeof(T)) == 0 && aligned(p.a, p.b);
}

template <int kTiles, class T, class C>
void launch_matrix(const FewRows<T, C>& p, cudaStream_t stream) {
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  const auto tiles = static_cast<int>(swiglu ? ceil_div(p.n / 2, 8) : ceil_div(p.n, 16));
  const auto rounds = static_cast<int>(ceil_div(p.k, kRound));
  // Of a, and if it is held as a whole also of the norm.
  const auto bytes = [&](int held) {
    const std::int64_t of_norm = held == rounds && p.norm.w ? 2 * held * kRound : 0;
    return static_cast<std::size_t>(p.m * (held * kRound + kPad) + of_norm) * sizeof(T);
  };
  const int held = bytes(rounds) <= kMostHeld ? rounds : 1;
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = matrix_kernel<kTiles, T, C>;
  const std::size_t shared = sizeof(Shared<kTiles>) + bytes(held);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(sizeof(Shared<kTiles>) + kMostHeld)));
  launch_dependent(kernel, std::min(tiles, 2 * multiprocessors), kThreads, shared, stream, p, tiles,
                   held);
}

}  // namespace

template <class T, class C>
bool few_rows_norms(const FewRows<T, C>& p) {
  return sizeof(T) == 2 && whole_units(p) && aligned(p.norm.w, p.norm.shift);
}

template <class T, class C>
void few_rows(const FewRows<T, C>& p, cudaStream_t stream) {
  if (p.m * p.n == 0) return;
  if constexpr (sizeof(T) == 2)
    if (whole_units(p)) return p.m <= 8 ? launch_matrix<1>(p, stream) : launch_matrix<2>(p, stream);
  if (p.norm.w) fail(Exit::internal, "few_rows: a norm of ", p.k, " elements");
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  with_width<kWide<T>>(whole_units(p), [&]<int N>() {
    launch_dependent(plain_kernel<N, T, C>, ceil_div(swiglu ? p.n / 2 : p.n, kWarps), kThreads, 0,
                     stream, p);
  });
}

#define INSTANTIATE(T, C)                             \
  template bool few_rows_norms(const FewRows<T, C>&); \
  template void few_rows(const FewRows<T, C>&, cudaStream_t)
INSTANTIATE(float, float);
INSTANTIATE(bf16, bf16);
INSTANTIATE(bf16, float);
INSTANTIATE(fp16, fp16);
INSTANTIATE(fp16, float);

}  // namespace mt::cuda
