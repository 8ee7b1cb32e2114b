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

// c and at from the sum z of element (i, j), without its bias.
template <class T, class C>
__device__ void finish(const FewRows<T, C>& p, std::int64_t i, std::int64_t j, float z) {
  if (j >= p.n) return;
  if (p.bias) z += to_float(p.bias[j]);
  const std::int64_t place = i * p.n + j;
  if (p.at) p.at[place] = static_cast<T>(z);
  if (p.then == FewRows<T, C>::Then::gelu) z = gelu(z);
  if (p.residual) z += to_float(p.residual[place]);
  p.c[place] = static_cast<C>(z);
}
// ... of elements (i, j) and (i, n/2 + j).
template <class T, class C>
__device__ void finish_swiglu(const FewRows<T, C>& p, std::int64_t i, std::int64_t j, float gate,
                              float up) {
  const std::int64_t half = p.n / 2;
  if (j >= half) return;
  if (p.bias) gate += to_float(p.bias[j]), up += to_float(p.bias[half + j]);
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

__device__ void prefetch(const void* from, std::size_t bytes) {
  const std::size_t step = std::size_t{128} * kThreads * gridDim.x;
  for (std::size_t i = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) * 128; i < bytes;
       i += step)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + i));
}

template <int kTiles>
struct Shared {
  float part[2][kWarps][kTiles][32][4];  // sums of the warps, by turns
  float sums[kFewRows][kWarps];          // of the norm
  float mean[kFewRows], rstd[kFewRows];
};

// The sum over each row of a of f(element, row), into `to`; all threads, each the same elements
// whatever m is.
template <class T, class C, class F>
__device__ void row_sums(const FewRows<T, C>& p, float (&sums)[kFewRows][kWarps], const F& f) {
  constexpr int kUnit = 8;
  for (int i = 0; i < p.m; ++i) {
    float sum = 0;
    for (int x = threadIdx.x * kUnit; x < p.k; x += kThreads * kUnit) {
      const auto pack = load<kUnit>(p.a + i * p.k + x);
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
  for (const float part : sums) sum += part;
  return sum;
}

template <class T, class C, class Memory>
__device__ void measure_rows(const FewRows<T, C>& p, Memory& shared) {
  const int i = threadIdx.x;
  const float count = static_cast<float>(p.k);
  if (p.norm.centred) {
    row_sums(p, shared.sums, [](float x, int) { return x; });
    if (i < p.m) shared.mean[i] = total(shared.sums[i]) / count;
  } else if (i < p.m) {
    shared.mean[i] = 0;
  }
  __syncthreads();
  row_sums(p, shared.sums, [&](float x, int row) {
    const float centred = x - shared.mean[row];
    return centred * centred;
  });
  if (i < p.m) shared.rstd[i] = rsqrtf(total(shared.sums[i]) / count + p.norm.eps);
  __syncthreads();
}

// Elements [first, first + count) of a's rows, normalised, zeros behind them; count is a multiple
// of 8 and the distance of rows count + kPad.
template <class T, class C, class Memory>
__device__ void fill(T* to, const FewRows<T, C>& p, const Memory& shared, int first, int count) {
  constexpr int kUnit = 8;
  const int units = count / kUnit;
  for (int u = threadIdx.x; u < p.m * units; u += kThreads) {
    const int i = u / units, x = u % units * kUnit;
    T* const place = to + i * (count + kPad) + x;
    if (first + x >= p.k) {
      *reinterpret_cast<uint4*>(place) = uint4{};
      continue;
    }
    const auto a = load<kUnit>(p.a + i * p.k + first + x);
    if (p.norm.w == nullptr) {
      store(place, a);
      continue;
    }
    const auto w = load<kUnit>(p.norm.w + first + x);
    float y[kUnit];
#pragma unroll
    for (int n = 0; n < kUnit; ++n)
      y[n] = (a[n] - shared.mean[i]) * shared.rstd[i] * (w[n] + p.norm.offset);
    if (p.norm.shift) {
      const auto shift = load<kUnit>(p.norm.shift + first + x);
#pragma unroll
      for (int n = 0; n < kUnit; ++n) y[n] += shift[n];
    }
    store(place, y);
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
  let_next_kernel_begin();
  wait_for_kernel_before();
  if (p.norm.w) measure_rows(p, shared);
  // Either all of a is held, or a round of it at a time.
  const int width = held * kRound, stride = width + kPad;
  if (held >= rounds) {
    fill(a, p, shared, 0, width);
    __syncthreads();
  }

  int turn = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn ^= 1) {
    float sums[kTiles][4] = {};
    for (int round = 0; round < rounds; ++round) {
      if (held < rounds) {
        __syncthreads();
        fill(a, p, shared, round * kRound, width);
        __syncthreads();
      }
      const T* const from = a + (held < rounds ? 0 : round * kRound) + offset;
      const bool last = round + 1 == rounds;
      const int next_tile = last ? tile + gridDim.x : tile, next_round = last ? 0 : round + 1;
      const Rows<T> next(p, next_tile);
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 &one = ahead[n][0][half], &other = ahead[n][1][half];
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            const int i = t * 8 + lane / 4;
            uint4 x = {};
            if (i < p.m)
              x = *reinterpret_cast<const uint4*>(from + i * stride + n * kRun * kWarps +
                                                  half * 32);
            mma<T>(sums[t], {one.x, other.x, one.y, other.y}, x.x, x.y);
            mma<T>(sums[t], {one.z, other.z, one.w, other.w}, x.z, x.w);
          }
        }
        if (next_tile < tiles) fetch(ahead[n], next, next_round, n);
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
      *reinterpret_cast<float4*>(shared.part[turn][warp][t][lane]) =
          make_float4(sums[t][0], sums[t][1], sums[t][2], sums[t][3]);
    __syncthreads();
    const int t = threadIdx.x / 64, place = threadIdx.x % 64 / 2, column = threadIdx.x % 2;
    const int i = t * 8 + place % 4 * 2 + column;
    if (t < kTiles && i < p.m) {
      float z[2] = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        for (int r = 0; r < 2; ++r) z[r] += shared.part[turn][w][t][place][2 * r + column];
      if (p.then == FewRows<T, C>::Then::swiglu) {
        finish_swiglu(p, i, std::int64_t{tile} * 8 + place / 4, z[0], z[1]);
      } else {
        finish(p, i, std::int64_t{tile} * 16 + place / 4, z[0]);
        finish(p, i, std::int64_t{tile} * 16 + place / 4 + 8, z[1]);
      }
    }
    __syncwarp();
  }
  if (p.next) prefetch(p.next, p.next_bytes);
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
    if (threadIdx.x % 32 > 0) continue;
    if (swiglu)
      finish_swiglu(p, i, j, z, up);
    else
      finish(p, i, j, z);
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
  const auto bytes = [&](int held) {
    return static_cast<std::size_t>(p.m * (held * kRound + kPad)) * sizeof(T);
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
