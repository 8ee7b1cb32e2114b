// kernels/packed_rows.h: matrices whose rows lie in blocks of few bits, llama.cpp's and others, and
// products with them on the CPU, which read the blocks as they are.
//   y = x W^T + start      x: [m, k];  W: [n, k];  start: bias[n], or zeros, and y where added to
// A row is whole blocks of one type, and each 32 of its numbers are a part.  A number of a block is
//   w = d q - l      d: the block's, or zero;  l: its part's, of types that have one, else zero
// where q is a whole number of 16 bits, the scale of its part in it (ckpt/gguf_blocks.h has the
// formulas).  x is rounded to whole numbers of 16 bits by groups of 256 of a row, of which the last
// may be shorter:
//   a = max |x| of the group;  e = a / 32767;  p = the nearest whole number to x (32767 / a)
// and zeros where a < 2^-100; with a number that is not finite the row's y are NaN, as they may be
// with one of 2^122 or more.  Then
//   y = sum over blocks (d e) (sum p q) - sum over parts l (e sum p)
// Sums of p q are exact in 32 bits: numbers 2 i and 2 i + 1 of each part of a block go to the i-th
// of 16 lanes, in which blocks are added one after another, in f32; then the lanes by halves, as
// parts are (loops.h).  So a row's y depend on that row of x, W and start alone, on no number of
// rows or threads, and on no instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/embedding.h"

namespace mt {

// Those of llama.cpp's files; and what matrices of Hugging Face's folders are laid out as:
//   int4_32, int4_64, int4_128   a scale in 16 bits, the code that is zero, 1 where the scale is
//                                bf16, else fp16; then two codes a byte, of each 32 as of q4_0
//   int8, e4m3                   a scale in f32, then a code a byte
//   mxfp4                        a byte b, of the scale 2^(b - 127), then two codes a byte, as of
//                                q4_0: llama.cpp's, too
//   nvfp4                        a scale s in f32, 1 where that divides, else 0, and three bytes of
//                                nothing; of each 16 numbers a scale t in E4M3; then two codes a
//                                byte, of each 32 as of q4_0: the scales are t s, or t / s
// with w = scale (code - zero).  Codes of E4M3 are no whole numbers: their products, by the same
// lanes, are of x as it is, in f32, which is rounded after each addition.  Those of E2M1 are halves
// of whole numbers, q.  Numbers of nvfp4 have a d for each half of a part, d q being the number,
// and its lanes are added part after part.
enum class BlockType : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  int4_32,
  int4_64,
  int4_128,
  int8,
  e4m3,
  mxfp4,
  nvfp4
};

struct BlockForm {
  std::int64_t elements, bytes;
};
constexpr BlockForm form_of(BlockType type) {
  constexpr BlockForm kForms[] = {{32, 18},   {32, 20},   {32, 22},   {32, 24}, {32, 34},
                                  {256, 144}, {256, 176}, {256, 210}, {32, 20}, {64, 36},
                                  {128, 68},  {128, 132}, {128, 132}, {32, 17}, {128, 80}};
  return kForms[static_cast<int>(type)];
}

// PackedRows: the bytes of such a matrix.
//   i64 rows, cols, runs        a run is consecutive rows of one type
//   runs of i64 type, the row behind its last, and where in the bytes its first row begins: at a
//   multiple of 64
//   the blocks of each run's rows
class PackedRows {
 public:
  struct Run {
    std::int64_t type, end, offset;
    BlockType block_type() const { return static_cast<BlockType>(type); }
  };

  explicit PackedRows(const std::uint8_t* bytes) : bytes_(bytes) {}

  std::int64_t rows() const { return header()[0]; }
  std::int64_t cols() const { return header()[1]; }
  std::span<const Run> runs() const {
    return {reinterpret_cast<const Run*>(bytes_ + kHeader), static_cast<std::size_t>(header()[2])};
  }
  const std::uint8_t* blocks(const Run& run) const { return bytes_ + run.offset; }
  std::int64_t row_bytes(const Run& run) const { return row_bytes(run.block_type(), cols()); }
  static std::int64_t row_bytes(BlockType type, std::int64_t cols) {
    return cols / form_of(type).elements * form_of(type).bytes;
  }

  // How many bytes it is where each row has a type, and the bytes but for the blocks.
  static std::int64_t bytes(std::span<const BlockType> types, std::int64_t cols);
  static void lay_out(std::uint8_t* bytes, std::span<const BlockType> types, std::int64_t cols);

 private:
  static constexpr std::int64_t kHeader = 24;
  const std::int64_t* header() const { return reinterpret_cast<const std::int64_t*>(bytes_); }

  const std::uint8_t* bytes_;  // at a multiple of 8
};

struct PackedProduct {
  float* y;               // [m, n]
  const float* x;         // [m, k], k the columns of w
  const std::uint8_t* w;  // PackedRows, the first n rows of which are multiplied
  const float* bias;      // [n] or null
  std::int64_t m, n;
  bool accumulate;
};

}  // namespace mt

namespace mt::cpu {
void packed_product(const PackedProduct& problem);
// The numbers that the blocks stand for, [rows, cols]: those that the file's reader gives, but for
// the signs of zeros.
void unpack_rows(float* y, const std::uint8_t* packed);
// embedding_forward() of such a table.
void packed_embedding(float* y, const std::int32_t* ids, const std::uint8_t* table,
                      std::int64_t rows, WordRange words);
}  // namespace mt::cpu
