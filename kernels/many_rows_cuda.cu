// More rows than few on the GPU, with the bits that each gets among few (few_rows.h): an element is
// made of the same products of 16 elements each, which are added in the same order.  There one of
// eight warps adds up every eighth run of 64 elements, each half of it apart; here a warp takes the
// runs of the first of them, then those of the second, and so on, and so has one such sum at a time
// for each half, beside what the warps before have come to.  A block takes 64 rows of b (of silu:
// 32 of each half) and up to 128 of a, which come to shared memory in stages of 64 elements a row.
// A norm goes before, by a kernel of its own.
#include "kernels/dependent.cuh"
#include "kernels/few_rows_finish.cuh"
#include "kernels/few_rows_held.cuh"
#include "kernels/many_rows.h"

namespace mt::cuda::few {
namespace {

constexpr int kColumnWarps = 2, kRowWarps = 4;  // of a block

// A warp has kWide tiles of 16 rows of b by kTiles of 8 rows of a.
template <int kWide, int kTiles>
struct Block {
  static constexpr int kColumns = 16 * kWide * kColumnWarps, kRows = 8 * kTiles * kRowWarps;
  static constexpr int kStageBytes = (kColumns + kRows) * kLine;
  static constexpr int kStages = (96 << 10) / kStageBytes, kBytes = kStages * kStageBytes;
};

// Brings the stages of a block: its rows of b, and behind them its rows of a.
template <class Sizes, class T, class C>
class Stages {
 public:
  __device__ Stages(const Arguments<T, C>& p, unsigned char* memory, int first_column,
                    int first_row)
      : k_(p.k), slices_((p.k + kSlice - 1) / kSlice) {
    const int row = static_cast<int>(threadIdx.x) / 8, unit = static_cast<int>(threadIdx.x) % 8;
    x_ = first_ = unit * kUnit;
    to_ = memory + place_in(row, unit);
    const int half = p.n / 2;
#pragma unroll
    for (int n = 0; n < kOfB; ++n) {
      const int of_block = row + 32 * n, of_tile = of_block % 16;
      const int j = first_column + (p.swiglu ? of_block / 16 * 8 + of_tile % 8 : of_block);
      const bool there = j < (p.swiglu ? half : p.n);
      there_ |= (there ? 1 : 0) << n;
      from_[n] = p.b + (there ? std::int64_t{p.swiglu && of_tile >= 8 ? half + j : j} * p.k : 0);
    }
#pragma unroll
    for (int n = 0; n < kOfA; ++n) {
      const int i = first_row + row + 32 * n;
      there_ |= (i < p.m ? 1 : 0) << (kOfB + n);
      from_[kOfB + n] = p.a + (i < p.m ? std::int64_t{i} * p.k : 0);
    }
  }
  __device__ int slices() const { return slices_; }
  // The next, in the place of the oldest; behind the last of them nothing.
  __device__ void fetch() {
    const int there = x_ < k_ ? there_ : 0;
    if (run_ < kWarps) {
#pragma unroll
      for (int n = 0; n < kOfB + kOfA; ++n)
        copy_16_bytes_or_zeros(to_ + slot_ + n * 32 * kLine, from_[n] + x_, there >> n & 1);
      x_ += kSlice;
      if (++slice_ == slices_) {
        slice_ = 0;
        x_ = first_ + ++run_ * kRun;
      }
    }
    copies_commit();
    slot_ = next(slot_);
  }
  __device__ static int next(int slot) {
    return slot == (Sizes::kStages - 1) * Sizes::kStageBytes ? 0 : slot + Sizes::kStageBytes;
  }

 private:
  static constexpr int kOfB = Sizes::kColumns / 32, kOfA = Sizes::kRows / 32;

  const int k_, slices_;
  unsigned char* to_;  // in the first slot
  const T* from_[kOfB + kOfA];
  int first_, x_, there_ = 0, run_ = 0, slice_ = 0,
                  slot_ = 0;  // there_: a bit for each row that is
};

template <int kWide, int kTiles, class T, class C>
__global__ __launch_bounds__(kThreads) void many_rows_kernel(const Arguments<T, C> p,
                                                             int row_blocks) {
  extern __shared__ __align__(16) unsigned char memory[];
  using Sizes = Block<kWide, kTiles>;
  let_next_kernel_begin();
  wait_for_kernel_before();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int block = static_cast<int>(blockIdx.x);
  const int first_row = block % row_blocks * Sizes::kRows;
  const int first_column = block / row_blocks * (p.swiglu ? Sizes::kColumns / 2 : Sizes::kColumns);
  Stages<Sizes, T, C> stages(p, memory, first_column, first_row);
#pragma unroll
  for (int n = 0; n < Sizes::kStages - 1; ++n) stages.fetch();

  const int column_warp = warp % kColumnWarps, row_warp = warp / kColumnWarps;
  // Where the units lie that this thread names, in the first tile.
  const int of_b = place_in(column_warp * 16 * kWide + lane % 16, lane / 16);
  const int of_a = Sizes::kColumns * kLine + place_in(row_warp * 8 * kTiles + lane % 8, lane / 8);
  float z[kWide][kTiles][4] = {};
  int slot = 0;
  const int slices = stages.slices();
  for (int run = 0; run < kWarps; ++run) {
    float sums[2][kWide][kTiles][4] = {};  // of the halves
    for (int slice = 0; slice < slices; ++slice) {
      copies_wait<Sizes::kStages - 2>();
      __syncthreads();
      stages.fetch();  // in the place of what all have multiplied
      const unsigned char* const stage = memory + slot;
      slot = stages.next(slot);
      std::uint32_t x[2][kTiles][4], y[4][kWide][4];  // of a: each half; of b: each 16 elements
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < kTiles; ++r)
          load_matrices(x[half][r], stage + (of_a ^ half * 64) + r * 8 * kLine);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int t = 0; t < kWide; ++t)
          load_matrices(y[n][t], stage + (of_b ^ n * 32) + t * 16 * kLine);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int t = 0; t < kWide; ++t)
#pragma unroll
          for (int r = 0; r < kTiles; ++r)
            mma<T>(sums[n / 2][t][r], y[n][t], x[n / 2][r][n % 2 * 2], x[n / 2][r][n % 2 * 2 + 1]);
    }
#pragma unroll
    for (int t = 0; t < kWide; ++t)
#pragma unroll
      for (int r = 0; r < kTiles; ++r)
#pragma unroll
        for (int n = 0; n < 4; ++n) z[t][r][n] += sums[0][t][r][n] + sums[1][t][r][n];
  }
  copies_wait<0>();

  const int columns = p.swiglu ? 8 : 16;
  const int end = p.swiglu ? p.n / 2 : p.n;
#pragma unroll
  for (int t = 0; t < kWide; ++t) {
    const int j = first_column + (column_warp * kWide + t) * columns + lane / 4;
    if (j >= end) continue;
#pragma unroll
    for (int r = 0; r < kTiles; ++r)
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const int i = first_row + (row_warp * kTiles + r) * 8 + lane % 4 * 2 + column;
        if (i >= p.m) continue;
        const Added added(p, i, j, p.swiglu ? p.n / 2 + j : j + 8);
        const float first = z[t][r][column], second = z[t][r][2 + column];
        if (p.swiglu) {
          finish_swiglu(p, i, j, first, second, added);
        } else {
          finish(p, i, j, first, added.bias[0], added.residual[0]);
          finish(p, i, j + 8, second, added.bias[1], added.residual[1]);
        }
      }
  }
}

// A row of a, normalised, a block.
template <class T, class C>
__global__ __launch_bounds__(kThreads) void norm_kernel(Arguments<T, C> p, T* to) {
  __shared__ float sums[2][kFewRows][kWarps];
  let_next_kernel_begin();
  wait_for_kernel_before();
  p.a += std::int64_t{blockIdx.x} * p.k;
  to += std::int64_t{blockIdx.x} * p.k;
  p.m = 1;
  measure_rows(p, p.a, p.k, sums);
  const Measure of(p, sums, 0);
  for (int x = static_cast<int>(threadIdx.x) * kUnit; x < p.k; x += kThreads * kUnit)
    store(to + x, normal(p, load<kUnit>(p.a + x), p.norm.w + x, p.norm.shift + x, of));
}

template <int kWide, int kTiles, class T, class C>
void launch(const FewRows<T, C>& p, cudaStream_t stream) {
  using Sizes = Block<kWide, kTiles>;
  const auto kernel = many_rows_kernel<kWide, kTiles, T, C>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Sizes::kBytes));
  leave_memory_shared(kernel);
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  const std::int64_t row_blocks = ceil_div(p.m, Sizes::kRows),
                     column_blocks = ceil_div(swiglu ? p.n / 2 : p.n,
                                              swiglu ? Sizes::kColumns / 2 : Sizes::kColumns);
  launch_dependent(kernel, row_blocks * column_blocks, kThreads, Sizes::kBytes, stream,
                   Arguments<T, C>(p, multiprocessors(), 0), static_cast<int>(row_blocks));
}

}  // namespace

template <class T, class C>
void many_rows(FewRows<T, C> p, cudaStream_t stream) {
  if (p.norm.w) {
    launch_dependent(norm_kernel<T, C>, p.m, kThreads, 0, stream,
                     Arguments<T, C>(p, multiprocessors(), 0), p.work);
    p.a = p.work;
    p.norm = {};
  }
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::many_rows_fit(p)) return hopper::many_rows(p, stream);
  // Where blocks of 64 rows of b would not go to all multiprocessors, they have 32.
  const auto with_rows = [&]<int kTiles>() {
    const std::int64_t blocks =
        ceil_div(p.n, Block<2, kTiles>::kColumns) * ceil_div(p.m, Block<2, kTiles>::kRows);
    blocks < multiprocessors() ? launch<1, kTiles>(p, stream) : launch<2, kTiles>(p, stream);
  };
  if (p.m <= Block<2, 1>::kRows)
    with_rows.template operator()<1>();
  else if (p.m <= Block<2, 2>::kRows)
    with_rows.template operator()<2>();
  else
    with_rows.template operator()<4>();
}

template void many_rows(FewRows<bf16, bf16>, cudaStream_t);
template void many_rows(FewRows<bf16, float>, cudaStream_t);
template void many_rows(FewRows<fp16, fp16>, cudaStream_t);
template void many_rows(FewRows<fp16, float>, cudaStream_t);

}  // namespace mt::cuda::few
