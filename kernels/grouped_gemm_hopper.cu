// The products of grouped_gemm.h on Hopper: as many blocks as there are multiprocessors, which take
// tiles of 128 x 256 sums in turn, of all groups one after another.  One thread has the copy engine
// bring what is summed over, 64 at a time; two warp groups multiply, each 64 rows of a tile, and
// write what they have while the next tile's first operands come
// and the other group still multiplies.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "kernels/cuda_check.h"
#include "kernels/gpu.h"
#include "kernels/grouped_gemm.h"
#include "kernels/hopper.cuh"
#include "kernels/pack.cuh"
#include "kernels/tile_map.h"
#include "kernels/warp_product.cuh"
#include "kernels/wgmma.cuh"
#include "kernels/write_sums.cuh"

namespace mt::cuda {
namespace {

constexpr int kRows = 128, kColumns = 256, kDepth = 64;  // of a tile, and what a stage has of a sum
constexpr int kGroups = 2, kMultiply = kGroups * kWarpGroup, kThreads = kMultiply + kWarpGroup;
constexpr int kLine = 2 * kDepth;  // bytes
constexpr int kABytes = kRows * kLine, kBBytes = kColumns * kLine, kStageBytes = kABytes + kBBytes;
constexpr int kStages = 4;
constexpr int kStripBytes = kMultiply / 32 * kStrip * 2;
constexpr int kSharedBytes =
    kStages * kStageBytes + kStripBytes + 2 * kStages * sizeof(Barrier) + kMostGroups * sizeof(int);
// Tiles one below another that are taken before those beside them, so that few operands are read at
// a time.
constexpr int kBand = 16;
// The second group is so far behind the first, and stays so: while one writes, the other
// multiplies.
constexpr int kBehind = 3 * kDepth;
static_assert(kBehind / kDepth < kStages);  // as many are not free before the second has read them

template <class C>
struct Arguments {
  C* c = nullptr;
  std::int64_t stride = 0;  // from one group's c to the next, where it has one of its own
  int m = 0, n = 0, k = 0;  // m: of sums over rows; k: of the others
  int groups = 0;
  bool accumulate = false, reversed = false;  // reversed: the last group's b comes first
  bool from_zero = true;
  const std::int32_t* there = nullptr;  // GroupEnds'; else they are here
  int ends[kMostGroups] = {};

  // Rows that a group's tiles cover.
  template <bool kSumRows>
  __host__ __device__ int covered(int first, int end) const {
    if constexpr (!kSumRows) return end - first;
    return accumulate && end == first ? 0 : m;
  }
};
struct Maps {
  CUtensorMap a, b;
};

struct Place {
  int group, row, column, first, end;  // of a tile; and the rows of its group
};

// Goes through the tiles of all groups.
template <bool kSumRows, class C>
class Tiles {
 public:
  __device__ Tiles(const Arguments<C>& p, const int* ends)
      : p_(p),
        ends_(ends),
        wide_((p.n + kColumns - 1) / kColumns),
        tile_(static_cast<int>(blockIdx.x)),
        first_(p.from_zero ? 0 : p.there[-1]) {}

  // Whether there is a next tile of this block, and where.
  __device__ bool next(Place& place) {
    for (; group_ < p_.groups; ++group_) {
      const int end = ends_[group_];
      const int high = (p_.template covered<kSumRows>(first_, end) + kRows - 1) / kRows;
      if (tile_ < high * wide_) {
        const int band = tile_ / (kBand * wide_), in_band = tile_ % (kBand * wide_),
                  of_band = min(kBand, high - band * kBand);
        place = {group_, (band * kBand + in_band % of_band) * kRows + (kSumRows ? 0 : first_),
                 in_band / of_band * kColumns, first_, end};
        tile_ += static_cast<int>(gridDim.x);
        return true;
      }
      tile_ -= high * wide_;
      first_ = end;
    }
    return false;
  }

 private:
  const Arguments<C>& p_;
  const int* const ends_;
  const int wide_;
  int tile_, first_, group_ = 0;
};

struct Memory {
  unsigned char* const stages;
  bf16* const strips;
  Barrier *const full, *const free;
  int* const ends;  // of all groups

  __device__ explicit Memory(unsigned char* bytes)
      : stages(bytes),
        strips(reinterpret_cast<bf16*>(bytes + kStages * kStageBytes)),
        full(reinterpret_cast<Barrier*>(bytes + kStages * kStageBytes + kStripBytes)),
        free(full + kStages),
        ends(reinterpret_cast<int*>(free + kStages)) {}
  __device__ unsigned char* a(int stage) const { return stages + stage * kStageBytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + kABytes; }
};

// One thread.  An operand that is summed over its rows lies in tiles of 64 columns.
template <bool kSumRows, bool kTransposeB, class C>
__device__ void produce(const Memory& memory, const Maps& maps, const Arguments<C>& p) {
  Ring<kStages> ring{.parity = 1};
  Place tile;
  for (Tiles<kSumRows, C> tiles(p, memory.ends); tiles.next(tile);) {
    const int begin = kSumRows ? tile.first : 0, end = kSumRows ? tile.end : p.k,
              matrix = kSumRows     ? 0
                       : p.reversed ? p.groups - 1 - tile.group
                                    : tile.group;
    for (int at = begin; at < end; at += kDepth, ring.advance()) {
      Barrier& full = memory.full[ring.stage];
      memory.free[ring.stage].wait(ring.parity);
      full.arrive_and_expect(kStageBytes);
      unsigned char *const a = memory.a(ring.stage), *const b = memory.b(ring.stage);
      if constexpr (kSumRows) {
#pragma unroll
        for (int i = 0; i < kRows / 64; ++i)
          load_tile(a + i * 64 * kLine, maps.a, full, tile.row + i * 64, at, 0, 0, 0);
      } else {
        load_tile(a, maps.a, full, at, tile.row, 0, 0, 0);
      }
      if constexpr (kTransposeB) {
        load_tile(b, maps.b, full, at, tile.column, matrix, 0, 0);
      } else {
#pragma unroll
        for (int i = 0; i < kColumns / 64; ++i)
          load_tile(b + i * 64 * kLine, maps.b, full, tile.column + i * 64, at, matrix, 0, 0);
      }
    }
  }
}

// The rows that are behind a group's last count nothing, whatever they are: a warp group clears its
// part of a, and all of b, where the other may clear the same.
__device__ inline void clear(unsigned char* a, unsigned char* b, int group, int rows) {
  const auto clear_lines = [&](unsigned char* lines) {
    for (int i = rows * (kLine / 16) + static_cast<int>(threadIdx.x) % kWarpGroup;
         i < kDepth * (kLine / 16); i += kWarpGroup)
      reinterpret_cast<uint4*>(lines)[i] = uint4{};
  };
  clear_lines(a + group * 64 * kLine);
#pragma unroll
  for (int i = 0; i < kColumns / 64; ++i) clear_lines(b + i * 64 * kLine);
  fence_async_shared();
  named_sync(1 + group, kWarpGroup);
}

template <bool kSumRows, bool kTransposeB, class C>
__device__ void multiply(const Memory& memory, const Arguments<C>& p) {
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup,
            warp = static_cast<int>(threadIdx.x) / 32;
  bf16* const strip = memory.strips + warp * kStrip;
  Ring<kStages> ring{.parity = 0};
  bool is_awaited = group == 0;
  if (!is_awaited) named_sync(kGroups + 1, kMultiply);
  const auto let_second_begin = [&] {
    if (is_awaited) named_arrive(kGroups + 1, kMultiply);
    is_awaited = false;
  };
  Place tile;
  for (Tiles<kSumRows, C> tiles(p, memory.ends); tiles.next(tile);) {
    const int begin = kSumRows ? tile.first : 0, end = kSumRows ? tile.end : p.k;
    float sums[kColumns / 2] = {};
    int before = 0;  // the stage that is multiplied
    for (int at = begin; at < end; at += kDepth, ring.advance()) {
      memory.full[ring.stage].wait(ring.parity);
      if (kSumRows && end - at < kDepth)
        clear(memory.a(ring.stage), memory.b(ring.stage), group, end - at);
      const std::uint32_t a = operand(memory.a(ring.stage) + group * 64 * kLine),
                          b = operand(memory.b(ring.stage), kTransposeB ? 16 : 64 * kLine);
      wgmma_fence();
#pragma unroll
      for (int n = 0; n < kDepth / 16; ++n)
        Wgmma<kColumns>::template multiply<kSumRows, !kTransposeB>(
            sums, kSumRows ? rows16(a, n) : columns16(a, n, kRows),
            kTransposeB ? columns16(b, n, kColumns) : rows16(b, n), true);
      wgmma_commit();
      if (at - begin == kBehind) let_second_begin();
      if (at > begin) {
        wgmma_wait<1>();
        memory.free[before].arrive_by_warps();
      }
      before = ring.stage;
    }
    let_second_begin();
    wgmma_wait<0>();
    pin(sums);
    if (end > begin) memory.free[before].arrive_by_warps();
    const int row = tile.row + warp * 16;
    C* const c = p.c + (kSumRows ? tile.group * p.stride : 0);
    const int last = kSumRows ? p.m : tile.end;
    if (kSumRows && p.accumulate)
      write_pairs<true>(c, sums, row, last, tile.column, p.n);
    else if constexpr (std::is_same_v<C, bf16>)
      write_rounded(c, sums, strip, row, last, tile.column, p.n);
    else
      write_pairs<false>(c, sums, row, last, tile.column, p.n);
  }
  let_second_begin();  // where there is no tile for this block
}

template <bool kSumRows, bool kTransposeB, class C>
__global__ __launch_bounds__(kThreads,
                             1) void grouped_kernel(const __grid_constant__ Maps maps,
                                                    const __grid_constant__ Arguments<C> p) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  const Memory memory(bytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      memory.full[stage].init(1);
      memory.free[stage].init(kMultiply / 32);
    }
    fence_barrier_init();
  }
  for (int g = static_cast<int>(threadIdx.x); g < p.groups; g += kThreads)
    memory.ends[g] = p.there != nullptr ? p.there[g] : p.ends[g];
  __syncthreads();
  if (threadIdx.x >= kMultiply) {
    give_registers_back<24>();
    if (threadIdx.x == kMultiply) produce<kSumRows, kTransposeB>(memory, maps, p);
  } else {
    take_registers<240>();
    multiply<kSumRows, kTransposeB>(memory, p);
  }
}

// Returns a map of a matrix [rows, columns], or of several, whose boxes have 64 columns.
CUtensorMap map_of(const bf16* data, std::int64_t rows, std::int64_t columns, int box,
                   std::int64_t matrices = 1, std::int64_t stride = 8) {
  return tile_map({.data = data,
                   .sizes = {columns, rows, matrices, 1, 1},
                   .strides = {columns, stride, stride, stride},
                   .box = {64, box, 1, 1, 1}});
}

template <bool kSumRows, bool kTransposeB, class C>
void launch(const Maps& maps, Arguments<C>& p, const GroupEnds& ends, cudaStream_t stream) {
  p.groups = static_cast<int>(ends.count());
  p.there = ends.there;
  p.from_zero = ends.from_zero;
  std::int64_t tiles = 0, first = 0;
  for (int g = 0; g < p.groups && p.there == nullptr; ++g) {
    const std::int64_t end = ends.here[static_cast<std::size_t>(g)];
    p.ends[g] = static_cast<int>(end);
    tiles += ceil_div(p.template covered<kSumRows>(static_cast<int>(first), p.ends[g]), kRows);
    first = end;
  }
  if (p.there != nullptr)  // at most
    tiles = kSumRows ? std::int64_t{p.groups} * ceil_div(p.m, kRows)
                     : ceil_div(ends.rows, std::int64_t{kRows}) + p.groups;
  tiles *= ceil_div(p.n, kColumns);
  if (tiles == 0) return;
  const auto kernel = grouped_kernel<kSumRows, kTransposeB, C>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, multiprocessors()));
  kernel<<<blocks, kThreads, kSharedBytes, stream>>>(maps, p);
  check(cudaGetLastError());
}

bool fits(const GroupEnds& ends, std::initializer_list<std::int64_t> sizes) {
  return hopper_kernels() && ends.count() > 0 && ends.count() <= kMostGroups &&
         std::ranges::all_of(sizes, [](std::int64_t size) { return size != 0 && size % 8 == 0; });
}

}  // namespace

bool hopper::takes(const GroupedRows& p) {
  return fits(p.ends, {p.n, p.k, p.stride}) && aligned(p.a, p.b, p.c);
}

template <class C>
bool hopper::takes(const GroupedWeights<C>& p) {
  return fits(p.ends, {p.m, p.n, p.stride}) && aligned(p.a, p.b, p.c);
}

void hopper::grouped_gemm(const GroupedRows& p, cudaStream_t stream) {
  const std::int64_t rows = p.ends.most_rows();
  if (rows == 0) return;
  Arguments<bf16> arguments{.c = p.c, .n = static_cast<int>(p.n), .k = static_cast<int>(p.k)};
  arguments.reversed = p.stride < 0;
  const CUtensorMap a = map_of(p.a, rows, p.k, kRows);
  const std::int64_t groups = p.ends.count(), stride = std::abs(p.stride);
  const bf16* const b = arguments.reversed ? p.b + (groups - 1) * p.stride : p.b;
  if (p.transpose_b)
    launch<false, true>({a, map_of(b, p.n, p.k, kColumns, groups, stride)}, arguments, p.ends,
                        stream);
  else
    launch<false, false>({a, map_of(b, p.k, p.n, kDepth, groups, stride)}, arguments, p.ends,
                         stream);
}

template <class C>
void hopper::grouped_gemm(const GroupedWeights<C>& p, cudaStream_t stream) {
  // Where there are no rows, none is read.
  const std::int64_t rows = std::max(p.ends.most_rows(), std::int64_t{1});
  Arguments<C> arguments{.c = p.c,
                         .stride = p.stride,
                         .m = static_cast<int>(p.m),
                         .n = static_cast<int>(p.n),
                         .accumulate = p.accumulate};
  launch<true, false>({map_of(p.a, rows, p.m, kDepth), map_of(p.b, rows, p.n, kDepth)}, arguments,
                      p.ends, stream);
}

template bool hopper::takes(const GroupedWeights<float>&);
template bool hopper::takes(const GroupedWeights<bf16>&);
template void hopper::grouped_gemm(const GroupedWeights<float>&, cudaStream_t);
template void hopper::grouped_gemm(const GroupedWeights<bf16>&, cudaStream_t);

}  // namespace mt::cuda
