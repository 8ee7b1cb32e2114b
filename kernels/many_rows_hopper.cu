// More rows than few on Hopper, with the bits that each gets among few (few_rows.h,
// many_rows_cuda.cu says in which order): the rows of b, 64 for each of a block's warp groups, are
// the left operand of wgmma, whose sums over 16 elements have the bits of a warp's own products.
// One more group has the copy engine bring stages of 64 elements a row, of b the first before the
// kernel ahead has ended.
#include "kernels/dependent.cuh"
#include "kernels/few_rows_finish.cuh"
#include "kernels/hopper.cuh"
#include "kernels/many_rows.h"
#include "kernels/tile_map.h"
#include "kernels/wgmma.cuh"

namespace mt::cuda::few {
namespace {

constexpr int kAheadRuns = 4;  // of the first group

// A block takes 64 rows of b for each group (of silu: 32 of each half) and kRows of a.
template <int kGroups_, int kRows_>
struct Tile {
  static constexpr int kGroups = kGroups_, kRows = kRows_, kColumns = 64 * kGroups;
  static constexpr int kMultiply = kGroups * kWarpGroup, kThreads = kMultiply + kWarpGroup;
  static constexpr int kStageBytes = (kColumns + kRows) * kLine;
  static constexpr int kStages = (208 << 10) / kStageBytes;
  static constexpr int kStride = kColumns + 4;  // of a row of sums: other banks
  static_assert(kRows * kStride * static_cast<int>(sizeof(float)) <= kStages * kStageBytes);
  static constexpr int kBytes = kStages * kStageBytes + 2 * kStages * sizeof(Barrier);
};

// The runs of 64 elements of a row in the order in which they are added up: every eighth from the
// first on, then every eighth from the second on.
struct Runs {
  const int k;
  int first = 0, x = 0;

  __device__ bool are_left() const { return first < kSlice && x < k; }
  __device__ void advance() {
    x += kSlice;
    if (x >= k) x = first += kRun;
  }
};

struct Maps {
  CUtensorMap a, b;
};

template <class T>
struct Memory {
  using Sizes = T;

  unsigned char* const stages;
  Barrier *const full, *const free;

  __device__ explicit Memory(unsigned char* bytes)
      : stages(bytes),
        full(reinterpret_cast<Barrier*>(bytes + T::kStages * T::kStageBytes)),
        free(full + T::kStages) {}
  __device__ unsigned char* b(int stage) const { return stages + stage * T::kStageBytes; }
  __device__ unsigned char* a(int stage) const { return b(stage) + T::kColumns * kLine; }
};

// One thread: brings all stages.
template <class Memory>
__device__ void produce(const Memory& memory, const Maps& maps, int k, bool swiglu,
                        int first_column, int first_row) {
  using Sizes = typename Memory::Sizes;
  const auto fetch_b = [&](int stage, int x) {
    memory.full[stage].arrive_and_expect(Sizes::kStageBytes);
    if (swiglu)
      load_tile(memory.b(stage), maps.b, memory.full[stage], x, 0, 0, first_column / 8, 0);
    else
      load_tile(memory.b(stage), maps.b, memory.full[stage], x, first_column, 0, 0, 0);
  };
  const auto fetch_a = [&](int stage, int x) {
    load_tile(memory.a(stage), maps.a, memory.full[stage], x, first_row, 0, 0, 0);
  };
  Runs early{k}, runs{k};
  int fetched = 0;
  for (; fetched < Sizes::kStages && early.are_left(); ++fetched, early.advance())
    fetch_b(fetched, early.x);
  wait_for_kernel_before();
  for (int stage = 0; stage < fetched; ++stage, runs.advance()) fetch_a(stage, runs.x);
  for (Ring<Sizes::kStages> ring{.parity = 0}; runs.are_left(); runs.advance(), ring.advance()) {
    memory.free[ring.stage].wait(ring.parity);
    fetch_b(ring.stage, runs.x);
    fetch_a(ring.stage, runs.x);
  }
}

// c and at from a tile's sums, N neighbours at a time; all threads that multiply.
template <int N, class Sizes, class C>
__device__ void finish_tile(const float* sums, const Arguments<bf16, C>& p, int first_row,
                            int first_column) {
  const int columns = p.swiglu ? Sizes::kColumns / 2 : Sizes::kColumns, units = columns / N;
  const int end = p.swiglu ? p.n / 2 : p.n;
  constexpr int kMine = Sizes::kRows * Sizes::kColumns / N / Sizes::kMultiply;
  Pack<C, N> residual[kMine];
  const auto for_units = [&](const auto& body) {  // body(unit of this thread, row, column of c)
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int unit = static_cast<int>(threadIdx.x) + i * Sizes::kMultiply;
      const int row = unit / units, column = unit % units * N;
      if (row < Sizes::kRows && first_row + row < p.m && first_column + column < end)
        body(i, row, column);
    }
  };
  const auto place = [&](int row, int column) {
    return std::int64_t{first_row + row} * end + first_column + column;
  };
  if (p.residual)
    for_units([&](int i, int row, int column) {
      residual[i] = load<N>(p.residual + place(row, column));
    });
  named_sync(1, Sizes::kMultiply);
  const auto sums_of = [&](float(&z)[N], int row, int of_tile, int of_bias) {
    const auto from = load<N>(sums + row * Sizes::kStride + of_tile);
    const auto bias = p.bias ? load<N>(p.bias + of_bias) : Pack<bf16, N>{};
#pragma unroll
    for (int n = 0; n < N; ++n) z[n] = from[n] + bias[n];
    if (p.at) store(p.at + std::int64_t{first_row + row} * p.n + of_bias, Pack<bf16, N>::of(z));
  };
  for_units([&](int i, int row, int column) {
    float z[N], up[N];
    const int j = first_column + column;
    if (p.swiglu) {
      const int of_tile = column / 8 * 16 + column % 8;
      sums_of(z, row, of_tile, j);
      sums_of(up, row, of_tile + 8, end + j);
    } else {
      sums_of(z, row, column, j);
    }
#pragma unroll
    for (int n = 0; n < N; ++n)
      z[n] = p.swiglu ? swiglu(z[n], up[n]) : finished(p, z[n], p.residual ? residual[i][n] : 0);
    store(p.c + place(row, column), Pack<C, N>::of(z));
  });
}

template <int kGroups, int kRows, class C>
__global__ __launch_bounds__(Tile<kGroups, kRows>::kThreads,
                             1) void many_rows_kernel(const __grid_constant__ Maps maps,
                                                      const Arguments<bf16, C> p, int row_blocks,
                                                      bool wide) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  using Sizes = Tile<kGroups, kRows>;
  const Memory<Sizes> memory(bytes);
  let_next_kernel_begin();
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup;
  const int block = static_cast<int>(blockIdx.x);
  const int first_row = block % row_blocks * kRows;
  const int first_column = block / row_blocks * Sizes::kColumns / (p.swiglu ? 2 : 1);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Sizes::kStages; ++stage) {
      memory.full[stage].init(1);
      memory.free[stage].init(4 * kGroups);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (group == kGroups) {
    if constexpr (kGroups > 1) give_registers_back<24>();
    if (threadIdx.x == kGroups * kWarpGroup)
      produce(memory, maps, p.k, p.swiglu, first_column, first_row);
    else
      wait_for_kernel_before();
    return;
  }
  if constexpr (kGroups > 1) take_registers<240>();
  // The second group is half of a first sum behind the first, and stays so: while one adds up what
  // was multiplied, the other multiplies.
  const int ahead = min(kAheadRuns, (p.k + kSlice - 1) / kSlice) * kSlice - kSlice;
  if (group == 1) named_sync(2, Sizes::kMultiply);
  float z[kRows / 2] = {};
  Ring<Sizes::kStages> ring{.parity = 0};
  for (int first = 0; first < min(kSlice, p.k); first += kRun) {
    float sums[2][kRows / 2];  // of the halves of the runs
    int before = 0;            // the stage that is multiplied
    for (int x = first; x < p.k; x += kSlice, ring.advance()) {
      memory.full[ring.stage].wait(ring.parity);
      const std::uint32_t b = operand(memory.b(ring.stage) + group * 64 * kLine),
                          a = operand(memory.a(ring.stage));
      wgmma_fence();
#pragma unroll
      for (int n = 0; n < 4; ++n)
        Wgmma<kRows>::template multiply<0, 0>(sums[n / 2], columns16(b, n, 64),
                                              columns16(a, n, kRows), n % 2 == 1 || x > first);
      wgmma_commit();
      if (kGroups > 1 && group == 0 && x == ahead) named_arrive(2, Sizes::kMultiply);
      if (x > first) {
        wgmma_wait<1>();
        memory.free[before].arrive_by_warps();
      }
      before = ring.stage;
    }
    wgmma_wait<0>();
    pin(sums[0]);
    pin(sums[1]);
    memory.free[before].arrive_by_warps();
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) z[i] += sums[0][i] + sums[1][i];
  }
  wait_for_kernel_before();
  auto* const sums = reinterpret_cast<float*>(bytes);
  named_sync(1, Sizes::kMultiply);  // all stages have been read
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i)
    sums[(i / 4 * 8 + lane % 4 * 2 + i % 2) * Sizes::kStride + warp * 16 + lane / 4 +
         i / 2 % 2 * 8] = z[i];
  if (wide)
    finish_tile<8, Sizes>(sums, p, first_row, first_column);
  else
    finish_tile<1, Sizes>(sums, p, first_row, first_column);
}

// Rows of k elements, a box of them; of silu in eights, those of the second half of b behind those
// of the first.
CUtensorMap rows_map(const bf16* data, std::int64_t rows, std::int64_t k, int box) {
  return tile_map({.data = data,
                   .sizes = {k, rows, 1, 1, 1},
                   .strides = {k, k, k, k},
                   .box = {kRun, box, 1, 1, 1}});
}
CUtensorMap halves_map(const bf16* data, std::int64_t rows, std::int64_t k, int box) {
  return tile_map({.data = data,
                   .sizes = {k, 8, 2, rows / 16, 1},
                   .strides = {k, rows / 2 * k, 8 * k, k},
                   .box = {kRun, 8, 2, box / 16, 1}});
}

template <int kGroups, int kRows, class C>
void launch(const FewRows<bf16, C>& p, cudaStream_t stream) {
  using Sizes = Tile<kGroups, kRows>;
  const auto kernel = many_rows_kernel<kGroups, kRows, C>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Sizes::kBytes));
  leave_memory_shared(kernel);
  const bool swiglu = p.then == FewRows<bf16, C>::Then::swiglu;
  const Maps maps{rows_map(p.a, p.m, p.k, kRows), swiglu
                                                      ? halves_map(p.b, p.n, p.k, Sizes::kColumns)
                                                      : rows_map(p.b, p.n, p.k, Sizes::kColumns)};
  const std::int64_t row_blocks = ceil_div(p.m, kRows);
  launch_dependent(kernel, row_blocks * ceil_div(p.n, Sizes::kColumns), Sizes::kThreads,
                   Sizes::kBytes, stream, maps, Arguments<bf16, C>(p, multiprocessors(), 0),
                   static_cast<int>(row_blocks),
                   p.n % 8 == 0 && aligned(p.c, p.at, p.bias, p.residual));
}

}  // namespace

template <class C>
bool hopper::many_rows_fit(const FewRows<bf16, C>& p) {
  return hopper_kernels() && (p.then != FewRows<bf16, C>::Then::swiglu || p.n % 16 == 0);
}

template <class C>
void hopper::many_rows(const FewRows<bf16, C>& p, cudaStream_t stream) {
  // The largest tiles that go to two thirds of the multiprocessors.
  const auto fits = [&]<int kGroups, int kRows>() {
    if (ceil_div(p.n, 64 * kGroups) * ceil_div(p.m, kRows) * 3 < 2 * multiprocessors())
      return false;
    launch<kGroups, kRows>(p, stream);
    return true;
  };
  if (p.m > 64 && fits.template operator()<2, 128>()) return;
  if (p.m > 32 && (fits.template operator()<2, 64>() || fits.template operator()<1, 64>())) return;
  if (fits.template operator()<2, 32>()) return;
  launch<1, 32>(p, stream);
}

template bool hopper::many_rows_fit(const FewRows<bf16, bf16>&);
template bool hopper::many_rows_fit(const FewRows<bf16, float>&);
template void hopper::many_rows(const FewRows<bf16, bf16>&, cudaStream_t);
template void hopper::many_rows(const FewRows<bf16, float>&, cudaStream_t);

}  // namespace mt::cuda::few
