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
  for (int i = 0; i < kNumbers; ++i) out[i] = tiles::number_at<kType>(piece, row, k + i);
  store(y, out);
}

// A block for a tile, a warp of it for a row; without a table rows of tiles are behind one another.
template <BlockType kType, class T>
__global__ __launch_bounds__(kThreads) void unpack_kernel(T* __restrict__ y,
                                                          const std::uint8_t* __restrict__ pieces,
                                                          const std::int32_t* __restrict__ table,
                                                          std::int64_t rows, std::int64_t cols,
                                                          int of_tile) {
  const std::int64_t tile = blockIdx.x;
  const int row = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = table == nullptr ? tile * kTileRows : table[tile] / 16;
  const std::int64_t own = table == nullptr ? rows - first : table[tile] % 16;
  if (row >= own) return;
  const int k = static_cast<int>(threadIdx.x) % 32 * kNumbers;
  y += (first + row) * cols + k;
  pieces += tile * of_tile * tile_form(kType).piece_bytes();
#pragma unroll 4
  for (int piece = 0; piece < of_tile; ++piece)
    if (piece * kPieceColumns + k < cols)
      unpack<kType>(y + piece * kPieceColumns, pieces + piece * tile_form(kType).piece_bytes(), row,
                    k);
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
