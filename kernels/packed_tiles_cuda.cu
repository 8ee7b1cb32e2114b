#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"
#include "kernels/packed_few_rows.h"
#include "kernels/tile_numbers.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kNumbers = 8;  // of a thread

// Columns k to k + 7 of a row of a piece, to the row's place in y.
template <BlockType kType, class T>
__device__ void unpack(T* y, const std::uint8_t* piece, int row, int k) {
  float out[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i)
    out[i] = tiles::number_at<kType>(piece, tiles::Place(row, k + i));
  store(y, out);
}

// Four lanes in a row have a pair of numbers of each of four units, one after the other; then each
// has a unit.
template <class T>
__device__ void gather_units(Pack<T, kNumbers>& pairs) {
  constexpr int kWords = Pack<T, kNumbers>::kWords, kOfPair = kWords / 4;
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool is_upper = threadIdx.x & distance;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (i / kOfPair & distance) continue;
      std::uint32_t &low = pairs.word[i], &high = pairs.word[i + distance * kOfPair];
      const std::uint32_t got = __shfl_xor_sync(0xffffffff, is_upper ? low : high, distance);
      (is_upper ? low : high) = got;
    }
  }
}

// A block for a tile, of each piece of which a warp has some columns; without a table rows of tiles
// are behind one another.  A thread has the codes of a row that lie together, as in a product.
template <BlockType kType, class T>
__global__ __launch_bounds__(kThreads, 4) void unpack_kernel(
    T* __restrict__ y, const std::uint8_t* __restrict__ pieces,
    const std::int32_t* __restrict__ table, std::int64_t rows, std::int64_t cols, int of_tile) {
  constexpr int kBytes = tile_form(kType).piece_bytes();
  static_assert(kPieceColumns == kThreads / 32 * 4 * kNumbers);
  const std::int64_t tile = blockIdx.x;
  const std::int64_t first = table == nullptr ? tile * kTileRows : table[tile] / 16;
  const std::int64_t own = table == nullptr ? rows - first : table[tile] % 16;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 4, column = (4 * warp + lane % 4) * kNumbers;
  y += (first + row) * cols + column;
  pieces += tile * of_tile * kBytes;
#pragma unroll 4
  for (int piece = 0; piece < of_tile; ++piece) {
    float pairs[kNumbers];
#pragma unroll
    for (int i = 0; i < kNumbers; ++i)
      pairs[i] = tiles::number_at<kType>(pieces + piece * kBytes, tiles::Place(lane, warp, i));
    auto unit = Pack<T, kNumbers>::of(pairs);
    gather_units(unit);
    if (row < own && piece * kPieceColumns + column < cols) store(y + piece * kPieceColumns, unit);
  }
}

template <BlockType kType, class T>  // a block for an id
__global__ __launch_bounds__(kThreads) void embedding_kernel(
    T* __restrict__ y, const std::int32_t* __restrict__ ids,
    const std::uint8_t* __restrict__ pieces, std::int64_t words, std::int64_t first_word,
    std::int64_t cols, int of_tile) {
  const std::int64_t word = ids[blockIdx.x] - first_word;
  y += blockIdx.x * cols;
  for (std::int64_t c = threadIdx.x * kNumbers; c < cols; c += kThreads * kNumbers) {
    if (word < 0 || word >= words) {
      const float zeros[kNumbers] = {};
      store(y + c, zeros);
      continue;
    }
    const std::int64_t piece = word / kTileRows * of_tile + c / kPieceColumns;
    unpack<kType>(y + c, pieces + piece * tile_form(kType).piece_bytes(),
                  static_cast<int>(word % kTileRows), static_cast<int>(c % kPieceColumns));
  }
}

}  // namespace

template <class T>
void unpack_tiles(T* y, const std::uint8_t* bytes, const PackedTiles& form, cudaStream_t stream) {
  const auto of_tile = static_cast<int>(form.pieces_of_tile());
  for (const PackedTiles::Class& of : form.classes())
    tiles::with_type(of.type, [&]<BlockType kType>() {
      unpack_kernel<kType><<<static_cast<unsigned>(of.tiles), kThreads, 0, stream>>>(
          y, bytes + of.pieces,
          form.is_plain() ? nullptr : reinterpret_cast<const std::int32_t*>(bytes + of.table),
          form.rows(), form.cols(), of_tile);
      check(cudaGetLastError());
    });
}

template <class T>
void tiles_embedding(T* y, const std::int32_t* ids, const std::uint8_t* table,
                     const PackedTiles& form, std::int64_t rows, std::int64_t first_word,
                     cudaStream_t stream) {
  if (rows == 0) return;
  const PackedTiles::Class& of = form.classes().front();
  tiles::with_type(of.type, [&]<BlockType kType>() {
    embedding_kernel<kType><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        y, ids, table + of.pieces, form.rows(), first_word, form.cols(),
        static_cast<int>(form.pieces_of_tile()));
    check(cudaGetLastError());
  });
}

#define INSTANTIATE(T)                                                                            \
  template void unpack_tiles(T*, const std::uint8_t*, const PackedTiles&, cudaStream_t);          \
  template void tiles_embedding(T*, const std::int32_t*, const std::uint8_t*, const PackedTiles&, \
                                std::int64_t, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
