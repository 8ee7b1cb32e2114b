// kernels/packed_tiles.h: packed rows (packed_rows.h) as GPUs multiply them: the same codes and
// scales, laid out so that what a thread loads is what it hands to the matrix units.
//
// Rows of one type make a class, whichever runs they come from.  Eight rows of a run are a tile (of
// the last, fewer), and 256 columns of a tile a piece, whose bytes lie together, those of a tile's
// pieces behind one another, and tiles behind tiles; what is behind the last column or row is zero.
//
//   a class:  i32 of each tile, 16 first + rows, first being its first row; at the next multiple of
//             256 bytes its pieces
//   a piece:  codes; fifth and sixth bits of codes; scales
//
// Thread 4 g + c of a warp multiplies in step s, of 16 columns, numbers 2 c, 2 c + 1, 2 c + 8 and
// 2 c + 9 of row g, two pairs.  So columns k = 16 s + 8 h + 2 c + e have pair p = 2 (s % 2) + h of
// two steps u = s / 2:
//   codes of 4 bits  word u % 4 of the thread's 16 bytes of half u / 4: the first of a pair in bits
//                    4 p and up, the other 16 bits above.  Of E2M1 sign and magnitude lie apart,
//                    where e2m1_place() says, so that they are a float's after a shift
//   of 8 bits        word s % 4 of its 16 bytes of quarter s / 4: byte 2 h + e; of whole numbers
//                    128 is added
//   fifth bits       bit 4 (u % 4) + p + 16 e of word u / 4 of its 8 bytes
//   fifth and sixth  bits 8 (u % 2) + 2 p + 16 e and up of word u / 2 of its 16 bytes
// Scales, by rows:
//   f32              of each group; of int4 the low nine bits are 16 times the zero
//   f16, bf16        of each group
//   f16_least        of each group; then for all rows what is added to its numbers, f16
//   six              f16 d and dmin of each row; then bytes of each group's scale, then of its min
//   q6               f16 d of each row; then bytes of each group's scale + 128
//   e4m3             f32 of each half of a piece; then E4M3 of each group
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed_rows.h"

using cudaStream_t = struct CUstream_st*;

namespace mt {

inline constexpr std::int64_t kTileRows = 8, kPieceColumns = 256;

enum class TileScales : std::uint8_t { f32, f16, bf16, f16_least, six, q6, e4m3 };
enum class TileCodes : std::uint8_t { whole, e2m1, e4m3 };

struct TileForm {
  int bits, group;
  TileScales scales;
  TileCodes codes = TileCodes::whole;
  int middle = 0;  // the code of whole numbers that is zero, where all blocks have it

  constexpr int groups() const { return static_cast<int>(kPieceColumns) / group; }
  constexpr int code_bytes() const { return bits == 8 ? 2048 : 1024; }
  constexpr int high_bytes() const { return bits == 5 ? 256 : bits == 6 ? 512 : 0; }
  constexpr int scales_at() const { return code_bytes() + high_bytes(); }
  constexpr int scale_bytes() const {
    switch (scales) {
      case TileScales::f32:
        return 8 * groups() * 4;
      case TileScales::f16:
      case TileScales::bf16:
        return 8 * groups() * 2;
      case TileScales::f16_least:
        return 8 * groups() * 4;
      case TileScales::six:
        return 8 * (4 + 2 * groups());
      case TileScales::q6:
        return 8 * (2 + groups());
      case TileScales::e4m3:
        return 8 * (8 + groups());
    }
    return 0;
  }
  constexpr int piece_bytes() const { return scales_at() + scale_bytes(); }
  constexpr bool has_least() const {
    return scales == TileScales::f16_least || scales == TileScales::six;
  }
};
constexpr TileForm tile_form(BlockType type) {
  using enum TileScales;
  constexpr TileForm kForms[] = {{4, 32, f16, TileCodes::whole, 8},
                                 {4, 32, f16_least},
                                 {5, 32, f16, TileCodes::whole, 16},
                                 {5, 32, f16_least},
                                 {8, 32, f16, TileCodes::whole, 128},
                                 {4, 32, six},
                                 {5, 32, six},
                                 {6, 16, q6, TileCodes::whole, 32},
                                 {4, 32, f32},
                                 {4, 64, f32},
                                 {4, 128, f32},
                                 {8, 128, f32, TileCodes::whole, 128},
                                 {8, 128, f32, TileCodes::e4m3},
                                 {4, 32, bf16, TileCodes::e2m1},
                                 {4, 16, e4m3, TileCodes::e2m1}};
  return kForms[static_cast<int>(type)];
}
constexpr bool is_int4(BlockType type) {
  return type == BlockType::int4_32 || type == BlockType::int4_64 || type == BlockType::int4_128;
}

// A code of E2M1 of pair p has its magnitude in three bits from this one on, and its sign in that
// one.  Shifted to the left until these are bits 9 to 11 and 15 of 16, they are the fp16 of 2^-14
// times the number.
struct E2m1Place {
  int magnitude, sign;
};
constexpr E2m1Place e2m1_place(int pair) {
  return pair == 0   ? E2m1Place{9, 15}
         : pair == 1 ? E2m1Place{6, 12}
         : pair == 2 ? E2m1Place{3, 14}
                     : E2m1Place{0, 13};
}

// PackedTiles: where the classes of a matrix lie among its bytes.
class PackedTiles {
 public:
  struct Class {
    BlockType type;
    std::int64_t tiles, table, pieces;  // how many; where in the bytes the parts begin
  };

  PackedTiles() = default;
  PackedTiles(std::span<const BlockType> types, std::int64_t cols);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t pieces_of_tile() const { return (cols_ + kPieceColumns - 1) / kPieceColumns; }
  std::span<const Class> classes() const { return classes_; }
  // All rows are of one class, so that row r is row r % 8 of tile r / 8.
  bool is_plain() const { return classes_.size() == 1; }

  // Fills them, on the host.
  void lay_out(std::uint8_t* tiles, const PackedRows& rows) const;

 private:
  std::int64_t rows_ = 0, cols_ = 0, bytes_ = 0;
  std::vector<Class> classes_;
};

}  // namespace mt

namespace mt::cpu {
// unpack_rows() of tiles.
void unpack_tiles(float* y, const std::uint8_t* tiles, const PackedTiles& form);
}  // namespace mt::cpu
