// The products of fp8_blocks.h on Hopper: pairs of blocks of threads, as many as there are
// multiprocessors, which take tiles in turn: a pair has two of 128 rows below one another, and
// shares what it reads of b.  One thread of each block has the copy engine bring a block of what
// is summed over, codes and inverses; two warp groups multiply it, each 64 rows of a tile, and add
// what they have, times its inverses, to their sums in f32.  While one adds, the other multiplies.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda_check.h"
#include "kernels/fp8_blocks.h"
#include "kernels/gpu.h"
#include "kernels/hopper.cuh"
#include "kernels/pack.cuh"
#include "kernels/tile_map.h"
#include "kernels/wgmma.cuh"
#include "kernels/write_sums.cuh"

namespace mt::cuda {
namespace {

constexpr int kRows = 128;        // of a tile
constexpr int kPair = 2;          // blocks of a cluster
constexpr int kLine = kFp8Block;  // bytes
constexpr int kGroups = 2, kMultiply = kGroups * kWarpGroup, kThreads = kMultiply + kWarpGroup;
constexpr int kStripBytes = kMultiply / 32 * kStrip * 2;
// Pairs of tiles one below another that are taken before those beside them, so that few operands
// are read at a time.
constexpr int kBand = 8;

template <int kColumns_>
struct Tile {
  static constexpr int kColumns = kColumns_, kABytes = kRows * kLine, kBBytes = kColumns * kLine;
  static constexpr int kStageBytes = kABytes + kBBytes, kScales = kRows + kColumns;
  static constexpr int kStages = (208 << 10) / (kStageBytes + kScales * 4);
  static constexpr int kBytes = kStages * (kStageBytes + kScales * 4) + kStripBytes +
                                2 * kStages * static_cast<int>(sizeof(Barrier));
  static_assert(kBytes <= static_cast<int>(kSharedBytes<Code::hopper>));
};

template <class C>
struct Arguments {
  C* c = nullptr;
  const float *a_inverse = nullptr, *b_inverse = nullptr;
  const C* bias = nullptr;
  int m = 0, n = 0, k = 0, a_rows = 0;
  bool accumulate = false;
};
struct Maps {
  CUtensorMap a, b;
};

template <class T>
struct Memory {
  unsigned char* const stages;
  float* const scales;  // of a's rows, then of b's, of each stage
  bf16* const strips;
  Barrier *const full, *const free;

  __device__ explicit Memory(unsigned char* bytes)
      : stages(bytes),
        scales(reinterpret_cast<float*>(bytes + T::kStages * T::kStageBytes)),
        strips(reinterpret_cast<bf16*>(scales + T::kStages * T::kScales)),
        full(reinterpret_cast<Barrier*>(strips + kStripBytes / 2)),
        free(full + T::kStages) {}
  __device__ unsigned char* a(int stage) const { return stages + stage * T::kStageBytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + T::kABytes; }
  __device__ float* of_a(int stage) const { return scales + stage * T::kScales; }
  __device__ float* of_b(int stage) const { return of_a(stage) + kRows; }
};

__device__ inline int rank_of_pair() { return static_cast<int>(blockIdx.x) % kPair; }

// Goes through the tiles of this block.
template <int kColumns, class C>
class Tiles {
 public:
  __device__ explicit Tiles(const Arguments<C>& p)
      : high_((p.m + kPair * kRows - 1) / (kPair * kRows)),
        wide_((p.n + kColumns - 1) / kColumns),
        at_(static_cast<int>(blockIdx.x) / kPair) {}

  // Whether there is a next tile, and where.
  __device__ bool next(int& row, int& column) {
    if (at_ >= high_ * wide_) return false;
    const int band = at_ / (kBand * wide_), in_band = at_ % (kBand * wide_),
              of_band = min(kBand, high_ - band * kBand);
    row = ((band * kBand + in_band % of_band) * kPair + rank_of_pair()) * kRows;
    column = in_band / of_band * kColumns;
    at_ += static_cast<int>(gridDim.x) / kPair;
    return true;
  }

 private:
  const int high_, wide_;
  int at_;
};

// One thread.  Rows behind the last read as 0, their inverses as whatever is there: they are not
// written.
template <class T, class C>
__device__ void produce(const Memory<T>& memory, const Maps& maps, const Arguments<C>& p) {
  constexpr int kPart = T::kColumns / kPair;  // of b's rows: each block brings as many to both
  const int rank = rank_of_pair();
  Ring<T::kStages> ring{.parity = 1};
  int row, column;
  for (Tiles<T::kColumns, C> tiles(p); tiles.next(row, column);) {
    const int of_a = max(0, min(kRows, p.m - row)) * 4, of_b = min(T::kColumns, p.n - column) * 4;
    for (int block = 0; block * kLine < p.k; ++block, ring.advance()) {
      const int stage = ring.stage, at = block * kLine / 2;
      Barrier& full = memory.full[stage];
      memory.free[stage].wait(ring.parity);
      full.arrive_and_expect(T::kStageBytes + of_a + of_b);
      load_tile(memory.a(stage), maps.a, full, at, row, 0, 0, 0);
      load_tile_to_blocks((1u << kPair) - 1, memory.b(stage) + rank * kPart * kLine, maps.b, full,
                          at, column + rank * kPart, 0, 0, 0);
      if (of_a > 0)
        load_bytes(memory.of_a(stage), p.a_inverse + std::int64_t{block} * p.a_rows + row, of_a,
                   full);
      load_bytes(memory.of_b(stage), p.b_inverse + std::int64_t{block} * p.n + column, of_b, full);
    }
  }
}

template <int kColumns, class C>
__device__ void add_bias(const Arguments<C>& p, float (&sums)[kColumns / 2], int column) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const int at = column + j * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    if (at >= p.n) continue;
    const auto bias = load<2>(p.bias + at);
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[j * 4 + x] += bias[x % 2];
  }
}

// sums += part times the inverses of its rows and columns, of which 64 are alike in squares: those
// are `of_squares`.
template <bool kSquares, int kColumns>
__device__ void promote(float (&sums)[kColumns / 2], const float (&part)[kColumns / 2],
                        const float (&of_rows)[2], const float* of_columns,
                        const float (&of_squares)[kColumns / 64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kSquares) {
#pragma unroll
    for (int square = 0; square < kColumns / 64; ++square) {
      const float inverse = of_squares[square];
      const float both[] = {of_rows[0] * inverse, of_rows[1] * inverse};
#pragma unroll
      for (int i = square * 32; i < square * 32 + 32; ++i)
        sums[i] = fmaf(part[i], both[i / 2 % 2], sums[i]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const auto inverse = load<2>(of_columns + j * 8 + lane % 4 * 2);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        float& sum = sums[j * 4 + x];
        sum = fmaf(part[j * 4 + x] * inverse[x % 2], of_rows[x / 2], sum);
      }
    }
  }
}

template <bool kSquares, class T, class C>
__device__ void multiply(const Memory<T>& memory, const Arguments<C>& p) {
  constexpr int kColumns = T::kColumns;
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup,
            warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int own = warp * 16 + lane / 4;  // the first of a thread's rows, of the tile
  bf16* const strip = memory.strips + warp * kStrip;
  Ring<T::kStages> ring{.parity = 0};
  // The second group begins when the first has multiplied once.
  bool is_awaited = group == 0;
  if (!is_awaited) named_sync(1, kMultiply);
  int row, column;
  for (Tiles<kColumns, C> tiles(p); tiles.next(row, column);) {
    float sums[kColumns / 2] = {}, part[kColumns / 2];
    for (int block = 0; block * kLine < p.k; ++block, ring.advance()) {
      const int stage = ring.stage;
      memory.full[stage].wait(ring.parity);
      const std::uint32_t a = operand(memory.a(stage) + group * 64 * kLine),
                          b = operand(memory.b(stage));
      wgmma_fence();
#pragma unroll
      for (int n = 0; n < 4; ++n)
        WgmmaOfCodes<kColumns>::multiply(part, columns16(a, n, kRows), columns16(b, n, kColumns),
                                         n > 0);
      wgmma_commit();
      const float of_rows[] = {memory.of_a(stage)[own], memory.of_a(stage)[own + 8]};
      float of_squares[kColumns / 64];
#pragma unroll
      for (int i = 0; i < kColumns / 64; ++i)
        of_squares[i] = kSquares ? memory.of_b(stage)[i * 64] : 0;
      wgmma_wait<0>();
      pin(part);
      if (is_awaited) named_arrive(1, kMultiply);
      is_awaited = false;
      promote<kSquares, kColumns>(sums, part, of_rows, memory.of_b(stage), of_squares);
      __syncwarp();
      if (lane < kPair) arrive_at(in_block(memory.free + stage, lane));
    }
    if (p.bias) add_bias<kColumns>(p, sums, column);
    const int first = row + warp * 16;
    if (p.accumulate)
      write_pairs<true>(p.c, sums, first, p.m, column, p.n);
    else if constexpr (std::is_same_v<C, bf16>)
      write_rounded(p.c, sums, strip, first, p.m, column, p.n);
    else
      write_pairs<false>(p.c, sums, first, p.m, column, p.n);
  }
}

template <int kColumns, bool kSquares, class C>
__global__ void __cluster_dims__(kPair) __launch_bounds__(kThreads, 1)
    block_gemm_kernel(const __grid_constant__ Maps maps, const Arguments<C> p) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  using Sizes = Tile<kColumns>;
  const Memory<Sizes> memory(bytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Sizes::kStages; ++stage) {
      memory.full[stage].init(1);
      memory.free[stage].init(kPair * kMultiply / 32);
    }
    fence_barrier_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x >= kMultiply) {
    give_registers_back<40>();
    if (threadIdx.x == kMultiply) produce<Sizes>(memory, maps, p);
  } else {
    take_registers<232>();
    multiply<kSquares, Sizes>(memory, p);
  }
  __syncwarp();
  cluster_arrive();  // the other block writes here until it has ended
  cluster_wait();
}

// Returns a map of rows of codes in boxes of 128: two codes are an element to the copy engine.
CUtensorMap map_of(const std::uint8_t* codes, std::int64_t rows, std::int64_t k, int box) {
  const std::int64_t row = k / 2;
  return tile_map({.data = reinterpret_cast<const bf16*>(codes),
                   .sizes = {row, rows, 1, 1, 1},
                   .strides = {row, row, row, row},
                   .box = {kLine / 2, box, 1, 1, 1}});
}

std::int64_t pairs_of_tiles(std::int64_t m, std::int64_t n, int columns) {
  return ceil_div(m, std::int64_t{kPair * kRows}) * ceil_div(n, std::int64_t{columns});
}

template <int kColumns, bool kSquares, class C>
void launch(const Fp8BlockGemm<C>& p, cudaStream_t stream) {
  const auto kernel = block_gemm_kernel<kColumns, kSquares, C>;
  constexpr int kBytes = Tile<kColumns>::kBytes;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const Maps maps{map_of(p.a, p.m, p.k, kRows), map_of(p.b, p.n, p.k, kColumns / kPair)};
  const Arguments<C> arguments{.c = p.c,
                               .a_inverse = p.a_inverse,
                               .b_inverse = p.b_inverse,
                               .bias = p.bias,
                               .m = static_cast<int>(p.m),
                               .n = static_cast<int>(p.n),
                               .k = static_cast<int>(p.k),
                               .a_rows = static_cast<int>(p.a_rows),
                               .accumulate = p.accumulate};
  const std::int64_t pairs =
      std::min<std::int64_t>(pairs_of_tiles(p.m, p.n, kColumns), multiprocessors() / kPair);
  kernel<<<static_cast<unsigned>(pairs * kPair), kThreads, kBytes, stream>>>(maps, arguments);
  check(cudaGetLastError());
}

}  // namespace

// A tile's columns take their time, and so does its end, as some 24 do.
int hopper::fp8_block_columns(std::int64_t m, std::int64_t n, int multiprocessors) {
  const auto time = [&](int columns) {
    return ceil_div(pairs_of_tiles(m, n, columns), std::int64_t{multiprocessors / kPair}) *
           (columns + 24);
  };
  return time(192) <= time(128) ? 192 : 128;
}

template <class C>
void hopper::fp8_block_gemm(const Fp8BlockGemm<C>& p, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  if (p.m % kFp8Multiple != 0 || p.n % kFp8Multiple != 0 || p.k % kFp8Multiple != 0 || p.k == 0 ||
      p.a_rows % kFp8Multiple != 0 || !aligned(p.a, p.b, p.c, p.a_inverse, p.b_inverse, p.bias))
    fail(Exit::internal, "fp8_block_gemm: ", p.m, " x ", p.n, " x ", p.k,
         ", expected multiples of ", kFp8Multiple, " at aligned addresses");
  const bool wide = fp8_block_columns(p.m, p.n, multiprocessors()) == 192;
  if (p.squares)
    wide ? launch<192, true>(p, stream) : launch<128, true>(p, stream);
  else
    wide ? launch<192, false>(p, stream) : launch<128, false>(p, stream);
}

template void hopper::fp8_block_gemm(const Fp8BlockGemm<float>&, cudaStream_t);
template void hopper::fp8_block_gemm(const Fp8BlockGemm<bf16>&, cudaStream_t);

}  // namespace mt::cuda
