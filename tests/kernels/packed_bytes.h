// Made-up rows in blocks (kernels/packed_rows.h), for tests.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/packed_rows.h"

namespace mt::check {

inline constexpr BlockType kBlockTypes[] = {
    BlockType::q4_0,     BlockType::q4_1, BlockType::q5_0, BlockType::q5_1,    BlockType::q8_0,
    BlockType::q4_k,     BlockType::q5_k, BlockType::q6_k, BlockType::int4_32, BlockType::int4_64,
    BlockType::int4_128, BlockType::int8, BlockType::e4m3, BlockType::mxfp4,   BlockType::nvfp4};

// Where in a block its scales of 16 bits are.
inline std::vector<std::int64_t> scales_of(BlockType type) {
  if (type == BlockType::q6_k) return {208};
  const bool two = type == BlockType::q4_1 || type == BlockType::q5_1 || type == BlockType::q4_k ||
                   type == BlockType::q5_k;
  return two ? std::vector<std::int64_t>{0, 2} : std::vector<std::int64_t>{0};
}

// A block's scales become finite: of both signs, some of them denormal; and so do its codes.
template <class Next>
void make_finite(std::uint8_t* block, BlockType type, const Next& next) {
  const auto scale = [&] {
    return (static_cast<float>(next() % 2000) - 1000) * (next() % 3 == 0 ? 1e-8F : 1e-5F);
  };
  if (type == BlockType::int8 || type == BlockType::e4m3) {
    const float s = scale() * (next() % 3 == 0 ? 1e-37F : 1);
    std::memcpy(block, &s, sizeof s);
    for (std::int64_t i = 4; i < form_of(type).bytes; ++i)
      if (type == BlockType::e4m3 && (block[i] & 127) == 127) block[i] = 1;
    return;
  }
  if (type == BlockType::mxfp4) return static_cast<void>(block[0] = block[0] % 20 + 100);
  if (type == BlockType::nvfp4) {
    const float s = scale();
    std::memcpy(block, &s, sizeof s);
    block[4] &= 1;
    if (block[4] != 0) {
      const float inverse = 1 / (std::fabs(s) + 1e-3F);
      std::memcpy(block, &inverse, sizeof inverse);
    }
    for (int i = 8; i < 16; ++i)
      if ((block[i] & 127) == 127) block[i] = 1;
    return;
  }
  for (const std::int64_t at : scales_of(type)) {
    const std::uint16_t bits = Fp16(scale()).bits;
    std::memcpy(block + at, &bits, sizeof bits);
  }
  if (type != BlockType::int4_32 && type != BlockType::int4_64 && type != BlockType::int4_128)
    return;
  block[2] %= 17;
  block[3] &= 1;
  if (block[3] == 0) return;
  const std::uint16_t bits = Bf16(scale()).bits;
  std::memcpy(block, &bits, sizeof bits);
}

// Any bytes, but for scales and E4M3's codes, which are finite.
inline std::vector<std::uint8_t> packed(const std::vector<BlockType>& types, std::int64_t cols) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(PackedRows::bytes(types, cols)));
  std::uint32_t state = 12345;
  const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(next());
  PackedRows::lay_out(bytes.data(), types, cols);
  const PackedRows rows(bytes.data());
  std::int64_t first = 0;
  for (const PackedRows::Run& run : rows.runs()) {
    const BlockForm form = form_of(run.block_type());
    for (std::int64_t block = 0; block < (run.end - first) * cols / form.elements; ++block)
      make_finite(bytes.data() + run.offset + block * form.bytes, run.block_type(), next);
    first = run.end;
  }
  return bytes;
}

}  // namespace mt::check
