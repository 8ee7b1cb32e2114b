// kernels/packed_few_rows.cuh: the kernel of packed_few_rows.h.  As few_rows_cuda.cu's, a block
// takes two tiles of eight rows at a time, each of its warps every so many pieces of them; the
// first pieces that it will multiply are on their way before the kernel ahead has ended.  x lies in
// shared memory, normalised and in fp16: all of it, or where that is too much the columns of as
// many pieces as there are warps at a time.
#pragma once

#include <limits>

#include "kernels/dependent.cuh"
#include "kernels/few_rows_finish.cuh"
#include "kernels/packed_feed.cuh"
#include "kernels/packed_few_rows.h"
#include "kernels/packed_piece.cuh"
#include "kernels/packed_rows_held.cuh"

namespace mt::cuda::few {

inline constexpr int kEarlySlots = 2;  // on their way before the kernel ahead has ended
inline constexpr int kColumns = static_cast<int>(kPieceColumns) * kPieces;
inline constexpr std::size_t kMostFixed = 112 << 10;  // bytes of all but x in shared memory
inline constexpr std::size_t kMostX = 80 << 10;       // ... and of x

// Threads of a block that wait for one another: `threads` counts those that arrive and that wait.
__device__ inline void barrier_wait(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <BlockType kType, class T, class C>
__global__ __launch_bounds__(kThreads, 2) void packed_kernel(const PackedArguments<T, C> all) {
  constexpr bool kWithTotals = tile_form(kType).has_least();
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<PackedShared*>(bytes);
  using Weights = PackedFeed<kType, T, C>;
  let_next_kernel_begin();
  const Arguments<T, C>& p = all.p;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = static_cast<int>(threadIdx.x) * kUnit;
  const int slices = (all.pieces_of_tile + kWarps - 1) / kWarps;
  const bool whole = all.whole;
  const int width = p.held * kColumns, stride = width + kPad;
  const int totals_stride = kWithTotals ? p.held * kWarps * kTotals + kPad : 0;

  auto* const totals = reinterpret_cast<__half*>(bytes + sizeof(PackedShared) + Weights::kAllBytes);
  auto* const rows = reinterpret_cast<T*>(totals + p.m * totals_stride);
  const HalfRows<kWithTotals> x{reinterpret_cast<__half*>(rows), totals, stride, totals_stride};
  // The norm's weights behind the rows, fetched ahead of the kernel before.
  T* const of_norm = rows + p.m * stride;
  if (whole && p.norm.w)
    for (int at = first; at < p.k; at += kColumns) {
      copy_16_bytes(of_norm + at, p.norm.w + at);
      if (p.norm.shift) copy_16_bytes(of_norm + width + at, p.norm.shift + at);
    }
  copies_commit();
  Weights weights(all, bytes + sizeof(PackedShared), !whole);

#pragma unroll
  for (int n = 0; n < kEarlySlots; ++n) weights.fetch();
  if (const int piece = static_cast<int>(blockIdx.x) * 32 + lane;
      warp == 0 && piece < p.ahead_pieces)
    fetch_to_l2(p.ahead + std::int64_t{piece} * kPiece, kPiece);
  wait_for_kernel_before();
  const T *const w = whole ? of_norm : p.norm.w, *const shift =
                                                     whole ? of_norm + width : p.norm.shift;
  constexpr int kTogether = 4;  // units that are loaded at once
  // One thread notes what is of a row, for all.
  const auto note_measures = [&] {
    if (threadIdx.x < p.m) {
      const int i = static_cast<int>(threadIdx.x);
      const RowMeasure of = RowMeasure::of(p, shared, i);
      shared.mean[i] = of.mean, shared.rstd[i] = of.rstd, shared.scale[i] = of.scale;
    }
  };
  const auto measure_of = [&](int i) {
    return RowMeasure{.mean = shared.mean[i], .rstd = shared.rstd[i], .scale = shared.scale[i]};
  };
  const auto fetch_all = [&] {
#pragma unroll
    for (int n = kEarlySlots; n < kRing<kType>; ++n) weights.fetch();
  };
  if (whole) {
    int i = 0, at = first;
    while (i < p.m) {
      Pack<T, kUnit> some[kTogether];
      T* to[kTogether];
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        to[n] = i < p.m ? rows + i * stride + at : nullptr;
        some[n] =
            i < p.m && at < p.k ? load<kUnit>(p.a + std::int64_t{i} * p.k + at) : Pack<T, kUnit>{};
        at += kColumns;
        if (at >= width) at = first, ++i;
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n)
        if (to[n] != nullptr) store(to[n], some[n]);
    }
    fetch_all();
    copies_wait<kRing<kType>>();  // the norm's
    const auto for_units = [&](int row, const auto& f) {
#pragma unroll 1
      for (int unit = first; unit < width; unit += kColumns)
        f(load<kUnit>(rows + row * stride + unit), unit);
    };
    const auto put_row = [&](int row, const RowMeasure& of) {
      for_units(row, [&](const Pack<T, kUnit>& own, int unit) {
        x.put(row, unit, unit < p.k ? of.normal(p, own, w + unit, shift + unit) : own, of.scale);
      });
    };
    if (p.m == 1) {
      measure_rows<1>(p, shared, w, shift, for_units);
      const RowMeasure of = RowMeasure::of(p, shared, 0);
      if (threadIdx.x == 0) shared.scale[0] = of.scale;
      put_row(0, of);
    } else {
      measure_rows<4>(p, shared, w, shift, for_units);
      note_measures();
      __syncthreads();
#pragma unroll 1
      for (int row = 0; row < p.m; ++row) put_row(row, measure_of(row));
    }
    __syncthreads();
  } else {
    fetch_all();
    measure_rows<4>(p, shared, w, shift, [&](int row, const auto& f) {
      for (int unit = first; unit < p.k; unit += kColumns)
        f(load<kUnit>(p.a + std::int64_t{row} * p.k + unit), unit);
    });
    note_measures();
    __syncthreads();
  }

  const RowsHeld from{
      x.rows + min(lane % 8, p.m - 1) * stride + lane / 8 * kUnit,
      reinterpret_cast<const std::uint32_t*>(x.totals + min(lane / 4, p.m - 1) * totals_stride)};
  // By turns, some warps finish what all have summed, while the others go on.
  constexpr int kFinishers = 2, kFull = 1, kFree = 3;
  const int passes = all.passes.count();
  const auto own_part = [&](int pass) -> float4& {
    return *reinterpret_cast<float4*>(shared.part[pass % 2][warp][lane]);
  };
  // Before a pass's part is stored where that of the one before the last was.
  const auto wait_for_room = [&](int pass) {
    if (pass >= 2) barrier_wait(kFree + pass % 2, kThreads + 32 * kFinishers);
  };
  const auto multiply = [&](float(&sums)[4], int slice) {
    const unsigned char* const pieces = weights.take();
    const int piece = slice * kWarps + warp;
    if (piece < all.pieces_of_tile)
      multiply_piece<kType>(sums, pieces, pieces + Weights::kBytes, from,
                            (whole ? piece : warp) * static_cast<int>(kPieceColumns), lane);
    weights.fetch();
  };
  // Once this warp's part is stored.
  const auto finish_pass = [&](int pass) {
    const int turn = pass % 2, finisher = (warp + kWarps - pass * kFinishers % kWarps) % kWarps;
    if (finisher >= kFinishers) return barrier_arrive(kFull + turn, kThreads);
    // The place in the tiles that this thread finishes.
    const int place = finisher * 16 + lane / 2, column = lane % 2;
    const int i = place % 4 * 2 + column;
    const TilePasses::Two tiles = all.passes.of(pass);
    const auto row_of = [&](int tile) {  // or n
      if (tile < 0) return p.n;
      if (all.table == nullptr) return min(tile * 8 + place / 4, p.n);
      const int entry = all.table[tile];
      return place / 4 < entry % 16 ? min(entry / 16 + place / 4, p.n) : p.n;
    };
    const int j = row_of(tiles.one), other = row_of(tiles.two);
    const Added added(p, i, j, other);
    const float factor = i < p.m ? x.inverse(shared.scale[i]) * kPieceFactor<kType> : 0;
    barrier_wait(kFull + turn, kThreads);
    float z[2] = {};
#pragma unroll
    for (int of = 0; of < kWarps; ++of)
      for (int r = 0; r < 2; ++r) z[r] += shared.part[turn][of][place][2 * r + column];
    barrier_arrive(kFree + turn, kThreads + 32 * kFinishers);
    if (i < p.m) {
      z[0] *= factor, z[1] *= factor;
      if (p.swiglu) {
        finish_swiglu(p, i, j, z[0], z[1], added);
      } else {
        finish(p, i, j, z[0], added.bias[0], added.residual[0]);
        finish(p, i, other, z[1], added.bias[1], added.residual[1]);
      }
    }
    __syncwarp();
  };
  if (whole) {
    for (int pass = 0; pass < passes; ++pass) {
      float sums[4] = {};
      for (int slice = 0; slice < slices; ++slice) multiply(sums, slice);
      wait_for_room(pass);
      own_part(pass) = make_float4(sums[0], sums[1], sums[2], sums[3]);
      finish_pass(pass);
    }
    return;
  }
  // Some of x serves two passes, whose sums lie in their places meanwhile.
  for (int pair = 0; pair < passes; pair += 2) {
    const int end = min(pair + 2, passes);
    for (int pass = pair; pass < end; ++pass) {
      wait_for_room(pass);
      own_part(pass) = float4{};
    }
    for (int slice = 0; slice < slices; ++slice) {
      __syncthreads();
      for (int r = 0; r < p.m; ++r) {
        const int at = slice * kColumns + first;
        Pack<T, kUnit> own = {};
        const RowMeasure of = measure_of(r);
        if (at < p.k)
          own = of.normal(p, load<kUnit>(p.a + std::int64_t{r} * p.k + at), w + at, shift + at);
        x.put(r, first, own, of.scale);
      }
      __syncthreads();
      for (int pass = pair; pass < end; ++pass) {
        const float4 before = own_part(pass);
        float sums[4] = {before.x, before.y, before.z, before.w};
        multiply(sums, slice);
        own_part(pass) = make_float4(sums[0], sums[1], sums[2], sums[3]);
      }
    }
    for (int pass = pair; pass < end; ++pass) finish_pass(pass);
  }
}

template <BlockType kType, class T, class C>
constexpr std::size_t kPackedFixed = sizeof(PackedShared) + PackedFeed<kType, T, C>::kAllBytes;

// The shared memory that so many slices' columns of x take and, if x is held as a whole, the norm's
// weights.
template <BlockType kType, class T, class C>
std::size_t x_bytes(const FewRows<T, C>& p, std::int64_t held, bool whole) {
  const std::int64_t of_norm =
      !whole || p.norm.w == nullptr ? 0 : (p.norm.shift ? 2 : 1) * held * kColumns;
  const std::int64_t of_totals =
      tile_form(kType).has_least() ? p.m * (held * kPieces * kTotals + kPad) : 0;
  return static_cast<std::size_t>(p.m * (held * kColumns + kPad) + of_totals + of_norm) * sizeof(T);
}

// The rows of one class.
template <BlockType kType, class T, class C>
void launch_packed(const FewRows<T, C>& p, const std::uint8_t* tiles, const PackedTiles& form,
                   const PackedTiles::Class& of, cudaStream_t stream) {
  static_assert(kPackedFixed<kType, T, C> <= kMostFixed);
  const std::int64_t slices = ceil_div(form.cols(), kColumns);
  const bool whole = x_bytes<kType>(p, slices, true) <= kMostX;
  const std::int64_t held = whole ? slices : 1;
  std::size_t bytes = kPackedFixed<kType, T, C> + x_bytes<kType>(p, held, whole);
  // A block takes more than half of the memory, or where codes are unpacked by many instructions
  // half of it, so that two lie on a multiprocessor: one more of them would come to lie on one
  // while those ahead still lie on another, and do so then in all kernels behind.  Nor do blocks of
  // one product wait beside those of one that itself waits.
  constexpr std::size_t kReserved = 1 << 10;  // of each block
  const std::size_t half_bytes = (most_shared_bytes() + kReserved) / 2;
  const bool are_two = tile_form(kType).bits < 8 && bytes + kReserved <= half_bytes;
  bytes = std::max(bytes, are_two ? half_bytes - kReserved : half_bytes);
  const int blocks = multiprocessors() * (are_two ? 2 : 1);
  const bool swiglu = p.then == FewRows<T, C>::Then::swiglu;
  const std::int64_t count =
      form.is_plain() ? std::min(of.tiles, ceil_div(p.n, kTileRows)) : of.tiles;
  const auto kernel = packed_kernel<kType, T, C>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kPackedFixed<kType, T, C> + kMostX)));
  leave_memory_shared(kernel);
  launch_dependent(
      kernel, blocks, kThreads, bytes, stream,
      PackedArguments<T, C>{.p = Arguments<T, C>(p, blocks, static_cast<int>(held)),
                            .pieces = tiles + of.pieces,
                            .table = form.is_plain()
                                         ? nullptr
                                         : reinterpret_cast<const std::int32_t*>(tiles + of.table),
                            .pieces_of_tile = static_cast<int>(form.pieces_of_tile()),
                            .whole = whole,
                            .passes = TilePasses(count, swiglu, blocks)});
}

}  // namespace mt::cuda::few
