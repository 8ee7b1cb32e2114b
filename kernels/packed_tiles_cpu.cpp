#include "kernels/packed_tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/threads.h"
#include "kernels/tile_numbers.h"

namespace mt {

namespace {

using tiles::Place;

constexpr std::int64_t kAlignment = 256;
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint16_t half_at(const std::uint8_t* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}
void put_half(std::uint8_t* at, std::uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }
void put_bits(std::uint8_t* at, std::uint32_t bits) {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  word |= bits;
  std::memcpy(at, &word, sizeof word);
}

// A code of 32 that lie as those of q4_0 do.
std::uint32_t nibble(const std::uint8_t* codes, int i) { return codes[i % 16] >> i / 16 * 4 & 15; }

// Code i of a block.
template <BlockType kType>
std::uint32_t code_of(const std::uint8_t* block, int i) {
  using enum BlockType;
  if constexpr (kType == q4_0) return nibble(block + 2, i);
  if constexpr (kType == q4_1) return nibble(block + 4, i);
  if constexpr (kType == q5_0 || kType == q5_1) {
    const std::uint8_t* const high = block + (kType == q5_0 ? 2 : 4);
    return nibble(high + 4, i) | (high[i / 8] >> i % 8 & 1U) << 4;
  }
  if constexpr (kType == q8_0) return block[2 + i] ^ 128U;
  if constexpr (kType == q4_k) return block[16 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
  if constexpr (kType == q5_k)
    return (block[48 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15U) |
           (block[16 + i % 32] >> i / 32 & 1U) << 4;
  if constexpr (kType == q6_k) {
    const int half = i / 128, part = i % 128 / 32;
    return (block[64 * half + 32 * (part % 2) + i % 32] >> part / 2 * 4 & 15U) |
           (block[128 + 32 * half + i % 32] >> 2 * part & 3U) << 4;
  }
  if constexpr (is_int4(kType)) return nibble(block + 4 + i / 32 * 16, i % 32);
  if constexpr (kType == int8) return block[4 + i] ^ 128U;
  if constexpr (kType == e4m3) return block[4 + i];
  if constexpr (kType == mxfp4) return nibble(block + 1, i);
  if constexpr (kType == nvfp4) return nibble(block + 16 + i / 32 * 16, i % 32);
  return 0;
}

template <BlockType kType>
void put_code(std::uint8_t* piece, const Place& place, std::uint32_t code) {
  constexpr TileForm kForm = tile_form(kType);
  if constexpr (kForm.bits == 8) {
    const tiles::CodeAt at = word_of_eight(place);
    put_bits(piece + at.byte, code << at.bit);
    return;
  }
  const tiles::CodeAt at = word_of_four(place);
  if constexpr (kForm.codes == TileCodes::e2m1) {
    const E2m1Place bits = e2m1_place(place.pair);
    put_bits(piece + at.byte, ((code & 7) << bits.magnitude | code >> 3 << bits.sign) << at.bit);
    return;
  }
  put_bits(piece + at.byte, (code & 15) << (4 * place.pair + at.bit));
  if constexpr (kForm.bits == 5) {
    const tiles::CodeAt high = bits_of_five(place);
    put_bits(piece + high.byte, code >> 4 << high.bit);
  }
  if constexpr (kForm.bits == 6) {
    const tiles::CodeAt high = bits_of_six(place);
    put_bits(piece + high.byte, code >> 4 << high.bit);
  }
}

// The scales of a block of k-quants, six bits each, and its mins.
template <BlockType kType>
void put_six(std::uint8_t* scales, int row, const std::uint8_t* block) {
  std::memcpy(scales + 4 * row, block, 4);
  const std::uint8_t* const in = block + 4;
  for (int j = 0; j < 8; ++j) {
    const bool first = j < 4;
    scales[32 + 8 * row + j] =
        static_cast<std::uint8_t>(first ? in[j] & 63 : (in[8 + j - 4] & 15) | in[j - 4] >> 6 << 4);
    scales[96 + 8 * row + j] = static_cast<std::uint8_t>(
        first ? in[4 + j] & 63 : in[8 + j - 4] >> 4 | in[4 + j - 4] >> 6 << 4);
  }
}

// What a block that begins at column k of a piece says of scales.
template <BlockType kType>
void put_scales(std::uint8_t* scales, int row, int k, const std::uint8_t* block) {
  using enum BlockType;
  constexpr TileForm kForm = tile_form(kType);
  const int group = row * kForm.groups() + k / kForm.group;
  const auto put_float = [&](std::uint8_t* at, float x) { std::memcpy(at, &x, sizeof x); };
  if constexpr (kForm.scales == TileScales::six) put_six<kType>(scales, row, block);
  if constexpr (kForm.scales == TileScales::q6) {
    put_half(scales + 2 * row, half_at(block + 208));
    for (int j = 0; j < 16; ++j)
      scales[16 + group + j] = static_cast<std::uint8_t>(block[192 + j] ^ 128);
  }
  if constexpr (kForm.scales == TileScales::f16 || kForm.scales == TileScales::f16_least)
    put_half(scales + 2 * group, half_at(block));
  if constexpr (kForm.scales == TileScales::f16_least)
    put_half(scales + 16 * kForm.groups() + 2 * group, half_at(block + 2));
  if constexpr (kForm.scales == TileScales::bf16) {
    const std::uint32_t b = block[0];  // 2^-127 is a denormal
    put_half(scales + 2 * group, static_cast<std::uint16_t>(b == 0 ? 0x40 : b << 7));
  }
  if constexpr (is_int4(kType)) {
    const float d = block[3] != 0
                        ? tiles::float_of_bits(static_cast<std::uint32_t>(half_at(block)) << 16)
                        : tiles::float_of_half(half_at(block));
    const std::uint32_t word = std::bit_cast<std::uint32_t>(d) | std::uint32_t{block[2]} << 4;
    std::memcpy(scales + 4 * group, &word, sizeof word);
  } else if constexpr (kForm.scales == TileScales::f32) {
    std::memcpy(scales + 4 * group, block, 4);
  }
  if constexpr (kForm.scales == TileScales::e4m3) {
    float s;
    std::memcpy(&s, block, sizeof s);
    put_float(scales + 8 * row + k / 128 * 4, block[4] != 0 ? 1 / s : s);
    std::memcpy(scales + 64 + group, block + 8, 8);
  }
}

// Row `row` of a tile, from its blocks.
template <BlockType kType>
void put_row(std::uint8_t* tile, int row, const std::uint8_t* blocks, std::int64_t cols) {
  constexpr BlockForm kBlock = form_of(kType);
  constexpr TileForm kForm = tile_form(kType);
  for (std::int64_t first = 0; first < cols; first += kBlock.elements, blocks += kBlock.bytes) {
    std::uint8_t* const piece = tile + first / kPieceColumns * kForm.piece_bytes();
    const int at = static_cast<int>(first % kPieceColumns);
    put_scales<kType>(piece + kForm.scales_at(), row, at, blocks);
    for (int i = 0; i < static_cast<int>(kBlock.elements); ++i)
      put_code<kType>(piece, Place(row, at + i), code_of<kType>(blocks, i));
  }
}

}  // namespace

PackedTiles::PackedTiles(std::span<const BlockType> types, std::int64_t cols)
    : rows_(std::ssize(types)), cols_(cols) {
  for (std::size_t first = 0, end = 0; first < types.size(); first = end) {
    while (end < types.size() && types[end] == types[first]) ++end;
    auto found = std::ranges::find(classes_, types[first], &Class::type);
    if (found == classes_.end()) found = classes_.insert(found, {types[first], 0, 0, 0});
    found->tiles += (static_cast<std::int64_t>(end - first) + kTileRows - 1) / kTileRows;
  }
  for (Class& of : classes_) {
    of.table = bytes_;
    of.pieces = of.table + aligned(of.tiles * 4);
    bytes_ = of.pieces + aligned(of.tiles * pieces_of_tile() * tile_form(of.type).piece_bytes());
  }
}

void PackedTiles::lay_out(std::uint8_t* to, const PackedRows& rows) const {
  std::memset(to, 0, static_cast<std::size_t>(bytes_));
  std::vector<std::int64_t> done(classes_.size());
  std::int64_t first = 0;
  for (const PackedRows::Run& run : rows.runs()) {
    const auto i = static_cast<std::size_t>(
        std::ranges::find(classes_, run.block_type(), &Class::type) - classes_.begin());
    const Class& of = classes_[i];
    const std::int64_t count = (run.end - first + kTileRows - 1) / kTileRows;
    const std::int64_t tile_bytes = pieces_of_tile() * tile_form(of.type).piece_bytes();
    parallel_for(count, [&](std::int64_t tile) {
      const std::int64_t begin = tile * kTileRows,
                         own = std::min(kTileRows, run.end - first - begin);
      const auto entry = static_cast<std::int32_t>((first + begin) * 16 + own);
      std::memcpy(to + of.table + (done[i] + tile) * 4, &entry, sizeof entry);
      std::uint8_t* const at = to + of.pieces + (done[i] + tile) * tile_bytes;
      tiles::with_type(of.type, [&]<BlockType kType>() {
        for (int r = 0; r < static_cast<int>(own); ++r)
          put_row<kType>(at, r, rows.blocks(run) + (begin + r) * rows.row_bytes(run), cols_);
      });
    });
    done[i] += count;
    first = run.end;
  }
}

}  // namespace mt

namespace mt::cpu {

void unpack_tiles(float* y, const std::uint8_t* bytes, const PackedTiles& form) {
  for (const PackedTiles::Class& of : form.classes())
    tiles::with_type(of.type, [&]<BlockType kType>() {
      const auto* const table = reinterpret_cast<const std::int32_t*>(bytes + of.table);
      constexpr std::int64_t kBytes = tile_form(kType).piece_bytes();
      for (std::int64_t t = 0; t < of.tiles; ++t)
        for (int r = 0; r < table[t] % 16; ++r)
          for (std::int64_t c = 0; c < form.cols(); ++c)
            y[(table[t] / 16 + r) * form.cols() + c] = tiles::number_at<kType>(
                bytes + of.pieces + (t * form.pieces_of_tile() + c / kPieceColumns) * kBytes,
                Place(r, static_cast<int>(c % kPieceColumns)));
    });
}

}  // namespace mt::cpu
