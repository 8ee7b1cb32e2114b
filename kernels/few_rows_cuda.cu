// Few rows on the GPU, where a kernel takes some microseconds and whatever is worked out after the
// one ahead has ended costs.  16-bit types in whole units of 16 bytes go to the matrix units, b's
// rows being the left operand: a block, one on each multiprocessor, takes tiles of 16 rows of b,
// each of its warps every eighth run of 64 of their elements.  What it will multiply next is on its
// way to shared memory, the first of it before the kernel ahead has ended: not all that there is
// room for, because what that kernel and this one's start wait for would queue behind it.  a lies
// in shared memory, normalised.  Other types and places, and GPUs with less shared memory than all
// that takes, have a plain kernel, a warp for a row of b.
#include <limits>

#include "base/error.h"
#include "kernels/dependent.cuh"
#include "kernels/few_rows_feed.cuh"
#include "kernels/few_rows_finish.cuh"
#include "kernels/few_rows_held.cuh"
#include "kernels/many_rows.h"

namespace mt::cuda {
namespace {

using namespace few;

constexpr int kEarly = 2;  // slices on their way before the kernel ahead has ended
constexpr std::size_t kMostHeld = 80 << 10;  // bytes of a in shared memory
constexpr int kTogether = 4;                 // rows that meet b at once in the plain kernel

template <int kTiles>
struct alignas(16) Shared {
  float part[2][kWarps][kTiles][32][4];  // sums of the warps, by turns
  float sums[2][kFewRows][kWarps];       // of the norm: of elements, of squares
};

// The warp's part of the sums: its halves together.
template <int kTiles>
__device__ void store_part(float (&part)[kTiles][32][4], const float (&sums)[2][kTiles][4],
                           int lane) {
#pragma unroll
  for (int r = 0; r < kTiles; ++r)
    *reinterpret_cast<float4*>(part[r][lane]) =
        make_float4(sums[0][r][0] + sums[1][r][0], sums[0][r][1] + sums[1][r][1],
                    sums[0][r][2] + sums[1][r][2], sums[0][r][3] + sums[1][r][3]);
}

template <int kTiles, class T, class C>
__global__ __launch_bounds__(kThreads, 2) void matrix_kernel(const Arguments<T, C> p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kTiles>*>(bytes);
  using Weights = Feed<T, C>;
  let_next_kernel_begin();
  T* const a = reinterpret_cast<T*>(bytes + sizeof(Shared<kTiles>) + Weights::kBytes);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slices = (p.k + kSlice - 1) / kSlice;
  const int rounds = (slices + kRoundSlices - 1) / kRoundSlices;
  const int offset = warp * kRun + lane / 8 * kUnit;  // of the unit in a slice that the lane names

  // Either all of a is held, or a round of it at a time.
  const bool whole = p.held >= rounds;
  const int width = p.held * kRound, stride = width + kPad;
  const Held<T, C> all(p, a, width);
  if (whole) all.fetch_norm();
  copies_commit();
  Weights weights(p, bytes + sizeof(Shared<kTiles>));
#pragma unroll
  for (int n = 0; n < kEarly; ++n) weights.fetch();
  if (const int piece = static_cast<int>(blockIdx.x) * 32 + lane;
      warp == 0 && piece < p.ahead_pieces)
    fetch_to_l2(p.ahead + std::int64_t{piece} * kPiece, kPiece);
  wait_for_kernel_before();
  typename Held<T, C>::Some some;
  if (whole) some = all.fetch({});
#pragma unroll
  for (int n = kEarly; n < kAhead; ++n) weights.fetch();
  if (whole) {
    all.put_all(some);
    copies_wait<kAhead>();  // the norm's
    all.normalise(shared);
  } else if (p.norm.w) {
    measure_rows(p, p.a, p.k, shared.sums);
  }

  // The place in the tile that this thread finishes.
  const int t = threadIdx.x / 64, place = threadIdx.x % 64 / 2, column = threadIdx.x % 2;
  const int i = t < kTiles ? t * 8 + place % 4 * 2 + column : kFewRows;
  int turn = 0;
  const Columns& columns = p.columns;
  for (int pass = 0; columns.width(pass) > 0; ++pass, turn ^= 1) {
    const int j = columns.first(pass) + place / 4, end = columns.first(pass) + columns.width(pass);
    const Added added(p, i, j, p.swiglu ? p.n / 2 + j : j + 8);
    float sums[2][kTiles][4] = {};  // of the halves of the warp's runs
    for (int slice = 0; slice < slices; ++slice) {
      if (!whole && slice % kRoundSlices == 0) {
        __syncthreads();
        fill_round(a, p, shared, slice * kSlice);
        __syncthreads();
      }
      const T* const from = a + (whole ? slice : slice % kRoundSlices) * kSlice + offset;
      std::uint32_t y[4][4], x[2][kTiles][4];  // of b: each 16 elements; of a: each half
      weights.take(y);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < kTiles; ++r)
          load_matrices(x[half][r], from + min(r * 8 + lane % 8, p.m - 1) * stride + half * 32);
      weights.fetch();
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int r = 0; r < kTiles; ++r)
          mma<T>(sums[n / 2][r], y[n], x[n / 2][r][n % 2 * 2], x[n / 2][r][n % 2 * 2 + 1]);
    }
    store_part(shared.part[turn][warp], sums, lane);
    __syncthreads();
    if (i < p.m && j < end) {
      float z[2] = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        for (int r = 0; r < 2; ++r) z[r] += shared.part[turn][w][t][place][2 * r + column];
      if (p.swiglu) {
        finish_swiglu(p, i, j, z[0], z[1], added);
      } else {
        finish(p, i, j, z[0], added.bias[0], added.residual[0]);
        if (j + 8 < end) finish(p, i, j + 8, z[1], added.bias[1], added.residual[1]);
      }
    }
    __syncwarp();
  }
}

// A warp for element j of all rows (and of silu for n/2 + j), of kTogether rows at a time.
template <int N, class T, class C>
__global__ __launch_bounds__(kThreads) void plain_kernel(const Arguments<T, C> p) {
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t j = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  const std::int64_t half = p.n / 2;
  if (j >= (p.swiglu ? half : p.n)) return;
  const auto dot = [&](float(&sums)[kTogether], std::int64_t first, std::int64_t row) {
    for (std::int64_t x = threadIdx.x % 32 * N; x < p.k; x += 32 * N) {
      const auto b = load<N>(p.b + row * p.k + x);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= p.m) break;
        const auto a = load<N>(p.a + (first + i) * p.k + x);
#pragma unroll
        for (int n = 0; n < N; ++n) sums[i] += a[n] * b[n];
      }
    }
#pragma unroll
    for (float& sum : sums) sum = over_lanes(sum);
  };
  for (std::int64_t first = 0; first < p.m; first += kTogether) {
    float z[kTogether] = {}, up[kTogether] = {};
    dot(z, first, j);
    if (p.swiglu) dot(up, first, half + j);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (threadIdx.x % 32 != 0 || first + i >= p.m) break;
      const Added added(p, first + i, j, half + j);
      if (p.swiglu)
        finish_swiglu(p, first + i, j, z[i], up[i], added);
      else
        finish(p, first + i, j, z[i], added.bias[0], added.residual[0]);
    }
    __syncwarp();
  }
}

template <int kTiles, class T, class C>
constexpr std::size_t kFixed = sizeof(Shared<kTiles>) + Feed<T, C>::kBytes;

// Whether the matrix units' kernel has the shared memory for any problem, so that what a row goes
// to does not depend on how many there are.
template <class T, class C>
bool has_room() {
  return kFixed<2, T, C> + kMostHeld <= most_shared_bytes();
}

template <class T, class C>
bool whole_units(const FewRows<T, C>& p) {
  return p.k % (16 / sizeof(T)) == 0 && aligned(p.a, p.b);
}

// The shared memory that so many rounds of a take and, if a is held as a whole, the norm's weights.
template <class T, class C>
std::size_t held_bytes(const FewRows<T, C>& p, std::int64_t held) {
  const std::int64_t of_norm =
      held * kRound < p.k || p.norm.w == nullptr ? 0 : (p.norm.shift ? 2 : 1) * held * kRound;
  return static_cast<std::size_t>(p.m * (held * kRound + kPad) + of_norm) * sizeof(T);
}
template <class T, class C>
bool held_whole(const FewRows<T, C>& p) {
  return held_bytes(p, ceil_div(p.k, kRound)) <= kMostHeld;
}

// Whether this kernel is the sooner one: not where a is brought again and again.
template <class T, class C>
bool is_few(const FewRows<T, C>& p) {
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::many_rows_fit(p)) return p.m <= kFewRows && held_whole(p);
  return p.m <= 8 || (p.m <= kFewRows && (held_whole(p) || p.n <= 16 * multiprocessors()));
}

template <int kTiles, class T, class C>
void launch_matrix(const FewRows<T, C>& p, cudaStream_t stream) {
  const int held = held_whole(p) ? static_cast<int>(ceil_div(p.k, kRound)) : 1;
  const int blocks = multiprocessors();
  const auto kernel = matrix_kernel<kTiles, T, C>;
  const std::size_t shared = kFixed<kTiles, T, C> + held_bytes(p, held);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kFixed<kTiles, T, C> + kMostHeld)));
  leave_memory_shared(kernel);
  launch_dependent(kernel, blocks, kThreads, shared, stream, Arguments<T, C>(p, blocks, held));
}

}  // namespace

template <class T, class C>
bool few_rows_norms(const FewRows<T, C>& p) {
  return sizeof(T) == 2 && whole_units(p) && aligned(p.norm.w, p.norm.shift) && has_room<T, C>();
}

template <class T, class C>
void few_rows(const FewRows<T, C>& p, cudaStream_t stream) {
  if (p.m * p.n == 0) return;
  if (std::max(p.n, p.k) > std::numeric_limits<int>::max())
    fail(Exit::internal, "few_rows: ", p.n, " x ", p.k);
  if constexpr (sizeof(T) == 2)
    if (whole_units(p) && has_room<T, C>())
      return !is_few(p) ? many_rows(p, stream)
             : p.m <= 8 ? launch_matrix<1>(p, stream)
                        : launch_matrix<2>(p, stream);
  if (p.norm.w) fail(Exit::internal, "few_rows: a norm of ", p.k, " elements");
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  with_width<kWide<T>>(whole_units(p), [&]<int N>() {
    launch_dependent(plain_kernel<N, T, C>, ceil_div(swiglu ? p.n / 2 : p.n, kWarps), kThreads, 0,
                     stream, Arguments<T, C>(p, 1, 0));
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
