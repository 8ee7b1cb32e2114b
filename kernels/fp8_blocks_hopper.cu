// The products of fp8_blocks.h on Hopper: pairs of blocks of threads, as many as there are
// multiprocessors, which take tiles in turn: a pair has two of 128 rows below one another, and
// shares what it reads of b.  One thread of each block has the copy engine bring a block of what
// is summed over, codes and inverses; two warp groups multiply it, each 64 rows of a tile, and add
// what they have, times its inverses, to their sums in f32: of a tile of 256 columns a half at a
// time, as registers do not hold both.  While one adds, the other multiplies.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
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
constexpr int kGroupRows = kRows / kGroups;
constexpr int kSlab = kGroupRows * kLine;  // bytes of sums that the copy engine takes at once
// Pairs of tiles one below another that are taken before those beside them, so that few operands
// are read at a time.
constexpr int kBand = 8;

// A stage has codes.  Inverses of squares are read before these are multiplied; of others there is
// a place more than there are stages, as those of columns are read when the stage is free.  Sums
// that are rounded go out by way of slabs, kSlab bytes of columns of a group's rows, swizzled; f32
// by way of rows that are eight numbers longer, so that the eight rows that a warp writes at once
// lie in different banks.
template <int kColumns_, bool kSquares_, class C>
struct Tile {
  static constexpr bool kSquares = kSquares_, kRounds = std::is_same_v<C, bf16>;
  static constexpr int kColumns = kColumns_, kParts = kColumns > 192 ? 2 : 1,
                       kPart = kColumns / kParts;  // columns that are multiplied at once
  static constexpr int kABytes = kRows * kLine, kStageBytes = kABytes + kColumns * kLine;
  static constexpr int kInverses = kRows + kColumns;
  static constexpr int kSlabColumns = kLine / static_cast<int>(sizeof(bf16)),
                       kSlabs = kColumns / kSlabColumns;
  static constexpr int kOutRow = kPart + 8,
                       kOutBytes = kRounds ? kGroups * kSlabs * kSlab
                                           : kRows * kOutRow * static_cast<int>(sizeof(C));
  static constexpr int kStages =
      (static_cast<int>(kSharedBytes<Code::hopper>) - kOutBytes - kInverses * 4) /
      (kStageBytes + kInverses * 4 + 2 * static_cast<int>(sizeof(Barrier)));
  static constexpr int kPlaces = kSquares ? kStages : kStages + 1;  // of inverses
  static constexpr int kBytes = kStages * kStageBytes + kOutBytes + kPlaces * kInverses * 4 +
                                2 * kStages * static_cast<int>(sizeof(Barrier));
  static_assert(kStages > 2 && kBytes <= static_cast<int>(kSharedBytes<Code::hopper>));
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
  CUtensorMap a, b, c;  // c where sums are rounded
};

template <class T>
struct Memory {
  unsigned char *const stages, *const out;
  float* const inverses;  // of a's rows, then of b's, at each place
  Barrier *const full, *const free;

  __device__ explicit Memory(unsigned char* bytes)
      : stages(bytes),
        out(bytes + T::kStages * T::kStageBytes),
        inverses(reinterpret_cast<float*>(out + T::kOutBytes)),
        full(reinterpret_cast<Barrier*>(inverses + T::kPlaces * T::kInverses)),
        free(full + T::kStages) {}
  __device__ unsigned char* a(int stage) const { return stages + stage * T::kStageBytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + T::kABytes; }
  __device__ float* of_a(int place) const { return inverses + place * T::kInverses; }
  __device__ float* of_b(int place) const { return of_a(place) + kRows; }
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
  constexpr int kOwn = T::kColumns / kPair;  // of b's rows: each block brings as many to both
  const int rank = rank_of_pair();
  Ring<T::kStages> ring{.parity = 1};
  Ring<T::kPlaces> places{.parity = 1};
  int row, column;
  for (Tiles<T::kColumns, C> tiles(p); tiles.next(row, column);) {
    const int of_a = max(0, min(kRows, p.m - row)) * 4, of_b = min(T::kColumns, p.n - column) * 4;
    for (int block = 0; block * kLine < p.k; ++block, ring.advance(), places.advance()) {
      const int stage = ring.stage, place = T::kSquares ? stage : places.stage,
                at = block * kLine / 2;
      Barrier& full = memory.full[stage];
      memory.free[stage].wait(ring.parity);
      full.arrive_and_expect(T::kStageBytes + of_a + of_b);
      load_tile(memory.a(stage), maps.a, full, at, row, 0, 0, 0);
      load_tile_to_blocks((1u << kPair) - 1, memory.b(stage) + rank * kOwn * kLine, maps.b, full,
                          at, column + rank * kOwn, 0, 0, 0);
      if (of_a > 0)
        load_bytes(memory.of_a(place), p.a_inverse + std::int64_t{block} * p.a_rows + row, of_a,
                   full);
      load_bytes(memory.of_b(place), p.b_inverse + std::int64_t{block} * p.n + column, of_b, full);
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

// Sums from `first` on += part times the inverses of its rows and columns, of which 64 are alike in
// squares: those are `of_squares`.
template <bool kSquares, int kPart, int kSums>
__device__ void promote(float (&sums)[kSums], int first, const float (&part)[kPart / 2],
                        const float (&of_rows)[2], const float* of_columns,
                        const float (&of_squares)[kPart / 64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kSquares) {
#pragma unroll
    for (int square = 0; square < kPart / 64; ++square) {
      const float inverse = of_squares[square];
      const float both[] = {of_rows[0] * inverse, of_rows[1] * inverse};
#pragma unroll
      for (int i = square * 32; i < square * 32 + 32; ++i)
        sums[first + i] = fmaf(part[i], both[i / 2 % 2], sums[first + i]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kPart / 8; ++j) {
      const auto inverse = load<2>(of_columns + j * 8 + lane % 4 * 2);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        float& sum = sums[first + j * 4 + x];
        sum = fmaf(part[j * 4 + x] * inverse[x % 2], of_rows[x / 2], sum);
      }
    }
  }
}

// The copy engine writes a group's rows of sums, rounded.
template <class T>
__device__ void write_slabs(const Memory<T>& memory, const CUtensorMap& map,
                            const float (&sums)[T::kColumns / 2], int row, int column) {
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup,
            thread = static_cast<int>(threadIdx.x) % kWarpGroup, warp = thread / 32,
            lane = thread % 32, matrix = lane / 8;
  unsigned char* const slabs = memory.out + group * (T::kSlabs * kSlab);
  if (thread == 0) store_wait_read();
  named_sync(2 + group, kWarpGroup);  // what was there has been read
#pragma unroll
  for (int slab = 0; slab < T::kSlabs; ++slab)
#pragma unroll
    for (int unit = 0; unit < kLine / 16; unit += 2) {
      const float* const s = sums + slab * (T::kSlabColumns / 2) + unit * 4;
      store_matrices(reinterpret_cast<bf16*>(slabs + slab * kSlab) +
                         swizzled(warp * 16 + matrix % 2 * 8 + lane % 8, unit + matrix / 2),
                     pack_pair<bf16>(s[0], s[1]), pack_pair<bf16>(s[2], s[3]),
                     pack_pair<bf16>(s[4], s[5]), pack_pair<bf16>(s[6], s[7]));
    }
  fence_async_shared();
  named_sync(2 + group, kWarpGroup);
  if (thread > 0) return;
  for (int slab = 0; slab < T::kSlabs; ++slab)
    store_tile(map, slabs + slab * kSlab, column + slab * T::kSlabColumns, row + group * kGroupRows,
               0, 0, 0);
  store_commit();
}

// ... a warp's 16 rows in f32, a lane each, or adds them to what is there.
template <class T>
__device__ void write(const Memory<T>& memory, const Arguments<float>& p,
                      const float (&sums)[T::kColumns / 2], int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const out = reinterpret_cast<float*>(memory.out) + (threadIdx.x / 32) * (16 * T::kOutRow);
#pragma unroll
  for (int part = 0; part < T::kParts; ++part, column += T::kPart) {
    store_wait_read();
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int i = 0; i < T::kPart / 4; ++i) {
      const float* const pair = sums + part * (T::kPart / 2) + i * 2;
      const float both[] = {pair[0], pair[1]};
      store(out + (lane / 4 + i % 2 * 8) * T::kOutRow + i / 2 * 8 + lane % 4 * 2,
            Pack<float, 2>::of(both));
    }
    fence_async_shared();
    __syncwarp();
    const int bytes = min(T::kPart, p.n - column) * static_cast<int>(sizeof(float));
    if (lane >= 16 || row + lane >= p.m || bytes <= 0) continue;
    float* const to = p.c + std::int64_t{row + lane} * p.n + column;
    const float* const from = out + lane * T::kOutRow;
    p.accumulate ? add_floats(to, from, bytes) : store_bytes(to, from, bytes);
    store_commit();
  }
}

template <class T, class C>
__device__ void multiply(const Memory<T>& memory, const CUtensorMap& map, const Arguments<C>& p) {
  constexpr bool kSquares = T::kSquares;
  constexpr int kColumns = T::kColumns, kPart = T::kPart, kSquaresOfPart = kPart / 64;
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup,
            warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int own = warp * 16 + lane / 4;  // the first of a thread's rows, of the tile
  // Operands are found of the first stage alone: shuffles for each stage would take as long as a
  // product of 16 columns.
  const std::uint32_t first_a = operand(memory.a(0) + group * kGroupRows * kLine),
                      first_b = operand(memory.b(0));
  Ring<T::kStages> ring{.parity = 0};
  Ring<T::kPlaces> places{.parity = 0};
  int row, column;
  for (Tiles<kColumns, C> tiles(p); tiles.next(row, column);) {
    float sums[kColumns / 2] = {}, part[kPart / 2];
    for (int block = 0; block * kLine < p.k; ++block, ring.advance(), places.advance()) {
      const int stage = ring.stage, place = kSquares ? stage : places.stage;
      memory.full[stage].wait(ring.parity);
      const float of_rows[] = {memory.of_a(place)[own], memory.of_a(place)[own + 8]};
      const std::uint32_t a = first_a + stage * (T::kStageBytes >> 4);
#pragma unroll
      for (int i = 0; i < T::kParts; ++i) {
        const std::uint32_t b = first_b + stage * (T::kStageBytes >> 4) + i * (kPart * kLine >> 4);
        const float* const of_columns = memory.of_b(place) + i * kPart;
        wgmma_fence();
#pragma unroll
        for (int n = 0; n < 4; ++n)
          WgmmaOfCodes<kPart>::multiply(part, columns16(a, n, kRows), columns16(b, n, kColumns),
                                        n > 0);
        wgmma_commit();
        float of_squares[kSquaresOfPart];
#pragma unroll
        for (int square = 0; square < kSquaresOfPart; ++square)
          of_squares[square] = kSquares ? of_columns[square * 64] : 0;
        wgmma_wait<0>();
        pin(part);
        if (kSquares) __syncwarp();  // all lanes have read their inverses
        if (i + 1 == T::kParts && lane < kPair) arrive_at(in_block(memory.free + stage, lane));
        promote<kSquares, kPart>(sums, i * (kPart / 2), part, of_rows, of_columns, of_squares);
      }
    }
    if (p.bias) add_bias<kColumns>(p, sums, column);
    const int first = row + warp * 16;
    if constexpr (!T::kRounds)
      write(memory, p, sums, first, column);
    else if (p.accumulate)  // rounded once
      write_pairs<true>(p.c, sums, first, p.m, column, p.n);
    else
      write_slabs(memory, map, sums, row, column);
  }
  store_wait_read();
}

template <int kColumns, bool kSquares, class C>
__global__ void __cluster_dims__(kPair) __launch_bounds__(kThreads, 1)
    block_gemm_kernel(const __grid_constant__ Maps maps, const Arguments<C> p) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  using Sizes = Tile<kColumns, kSquares, C>;
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
    multiply<Sizes>(memory, maps.c, p);
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

// ... and of rows of sums that are rounded, in slabs.
CUtensorMap map_of_sums(const bf16* c, std::int64_t m, std::int64_t n) {
  return tile_map({.data = c,
                   .sizes = {n, m, 1, 1, 1},
                   .strides = {n, n, n, n},
                   .box = {kLine / static_cast<int>(sizeof(bf16)), kGroupRows, 1, 1, 1}});
}

std::int64_t pairs_of_tiles(std::int64_t m, std::int64_t n, int columns) {
  return ceil_div(m, std::int64_t{kPair * kRows}) * ceil_div(n, std::int64_t{columns});
}

template <int kColumns, bool kSquares, class C>
void launch(const Fp8BlockGemm<C>& p, cudaStream_t stream) {
  const auto kernel = block_gemm_kernel<kColumns, kSquares, C>;
  constexpr int kBytes = Tile<kColumns, kSquares, C>::kBytes;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  Maps maps{map_of(p.a, p.m, p.k, kRows), map_of(p.b, p.n, p.k, kColumns / kPair), {}};
  if constexpr (std::is_same_v<C, bf16>) maps.c = map_of_sums(p.c, p.m, p.n);
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

// A tile's columns take their time, more of the narrowest, which read most for it, and where halves
// are added up one after the other, most where each column has an inverse then; and so does its
// end, as some 24 do.
int hopper::fp8_block_columns(std::int64_t m, std::int64_t n, bool squares, int multiprocessors) {
  const auto time = [&](int columns, double of_column) {
    const auto rounds = static_cast<double>(
        ceil_div(pairs_of_tiles(m, n, columns), std::int64_t{multiprocessors / kPair}));
    return rounds * (columns * of_column + 24);
  };
  int best = 192;
  double least = time(best, 1);
  for (const auto& [columns, of_column] : {std::pair{128, 1.14}, {256, squares ? 1.04 : 1.15}})
    if (const double taken = time(columns, of_column); taken < least) least = taken, best = columns;
  return best;
}

template <class C>
void hopper::fp8_block_gemm(const Fp8BlockGemm<C>& p, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return;
  if (p.m % kFp8Multiple != 0 || p.n % kFp8Multiple != 0 || p.k % kFp8Multiple != 0 || p.k == 0 ||
      p.a_rows % kFp8Multiple != 0 || !aligned(p.a, p.b, p.c, p.a_inverse, p.b_inverse, p.bias))
    fail(Exit::internal, "fp8_block_gemm: ", p.m, " x ", p.n, " x ", p.k,
         ", expected multiples of ", kFp8Multiple, " at aligned addresses");
  const auto with_columns = [&]<int kColumns>() {
    p.squares ? launch<kColumns, true>(p, stream) : launch<kColumns, false>(p, stream);
  };
  switch (fp8_block_columns(p.m, p.n, p.squares, multiprocessors())) {
    case 128:
      return with_columns.template operator()<128>();
    case 192:
      return with_columns.template operator()<192>();
    default:
      return with_columns.template operator()<256>();
  }
}

template void hopper::fp8_block_gemm(const Fp8BlockGemm<float>&, cudaStream_t);
template void hopper::fp8_block_gemm(const Fp8BlockGemm<bf16>&, cudaStream_t);

}  // namespace mt::cuda
