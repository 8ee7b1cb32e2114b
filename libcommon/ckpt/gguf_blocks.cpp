#include "ckpt/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ckpt/gguf_fields.h"
#include "ckpt/gguf_grid_blocks.h"

namespace mt {
namespace {

// Elements of a block with one scale, and of one with scales of its parts.
constexpr std::size_t kShort = kShortGgufBlock, kSuper = kLongGgufBlock;

// The number of four bits of element i of a short block.
int nibble(const std::uint8_t* bytes, std::size_t i) {
  return i < kShort / 2 ? bytes[i] & 15 : bytes[i - kShort / 2] >> 4;
}

// d (q - middle) or d q + m, of 4 or 5 bits.
template <bool kFive, bool kLeast>
void read_short(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half(), m = kLeast ? fields.half() : 0;
  const auto high = kFive ? fields.number<std::uint32_t>() : 0;
  const std::uint8_t* const low = fields.bytes(kShort / 2);
  constexpr int kMiddle = kFive ? 16 : 8;
  for (std::size_t i = 0; i < kShort; ++i) {
    const int q = nibble(low, i) | static_cast<int>(high >> i & 1) << 4;
    to[i] = kLeast ? d * static_cast<float>(q) + m : d * static_cast<float>(q - kMiddle);
  }
}

void read_q8_0(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  for (std::size_t i = 0; i < kShort; ++i) to[i] = d * fields.number<std::int8_t>();
}

// --- Of 256 -------------------------------------------------------------------------------------

// Two bits of element i: of each 128 elements the 32 bytes hold 0 to 31 in their lowest bits.
int pair_of_bits(const std::uint8_t* bytes, std::size_t i) {
  return bytes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

void read_q2_k(float* to, const std::byte* block) {
  GgufFields fields(block);
  const std::uint8_t *const scales = fields.bytes(16), *const low = fields.bytes(64);
  const float d = fields.half(), m = fields.half();
  for (std::size_t i = 0; i < kSuper; ++i) {
    const int s = scales[i / 16];
    to[i] = d * static_cast<float>(s & 15) * static_cast<float>(pair_of_bits(low, i)) -
            m * static_cast<float>(s >> 4);
  }
}

void read_q3_k(float* to, const std::byte* block) {
  GgufFields fields(block);
  const std::uint8_t *const high = fields.bytes(32), *const low = fields.bytes(64),
                            *const scales = fields.bytes(12);
  const float d = fields.half();
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t j = i / 16;  // six bits: four in a half of a byte, two in the last four bytes
    const int s =
        (j < 8 ? scales[j] & 15 : scales[j - 8] >> 4) | (scales[8 + j % 4] >> j / 4 * 2 & 3) << 4;
    const int q = pair_of_bits(low, i) - ((high[i % 32] >> i / 32 & 1) != 0 ? 0 : 4);
    to[i] = d * static_cast<float>(s - 32) * static_cast<float>(q);
  }
}

// Six bits each of the scale and the least of part j of eight, in twelve bytes.
struct ScaleAndLeast {
  int scale, least;
};
ScaleAndLeast packed_scales(const std::uint8_t* bytes, std::size_t j) {
  if (j < 4) return {bytes[j] & 63, bytes[j + 4] & 63};
  return {(bytes[j + 4] & 15) | bytes[j - 4] >> 6 << 4, bytes[j + 4] >> 4 | bytes[j] >> 6 << 4};
}

template <bool kFive>
void read_q4_k_or_q5_k(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half(), m = fields.half();
  const std::uint8_t* const scales = fields.bytes(12);
  const std::uint8_t* const high = kFive ? fields.bytes(32) : nullptr;
  const std::uint8_t* const low = fields.bytes(128);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const auto [scale, least] = packed_scales(scales, i / 32);
    const std::uint8_t byte = low[i / 64 * 32 + i % 32];
    int q = i % 64 < 32 ? byte & 15 : byte >> 4;
    if constexpr (kFive) q |= (high[i % 32] >> i / 32 & 1) << 4;
    to[i] = d * static_cast<float>(scale) * static_cast<float>(q) - m * static_cast<float>(least);
  }
}

void read_q6_k(float* to, const std::byte* block) {
  GgufFields fields(block);
  const std::uint8_t *const low = fields.bytes(128), *const high = fields.bytes(64),
                            *const scales = fields.bytes(16);
  const float d = fields.half();
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::uint8_t byte = low[i / 128 * 64 + i % 64];
    const int q = (i % 128 < 64 ? byte & 15 : byte >> 4) | pair_of_bits(high, i) << 4;
    to[i] = d * static_cast<float>(static_cast<std::int8_t>(scales[i / 16])) *
            static_cast<float>(q - 32);
  }
}

// --- Tables -------------------------------------------------------------------------------------

constexpr float kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
constexpr float kE2m1[16] = {0, .5F, 1, 1.5F, 2, 3, 4, 6, 0, -.5F, -1, -1.5F, -2, -3, -4, -6};

void read_iq4_nl(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const std::uint8_t* const low = fields.bytes(kShort / 2);
  for (std::size_t i = 0; i < kShort; ++i) to[i] = d * kNonlinear[nibble(low, i)];
}

void read_iq4_xs(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const auto high = fields.number<std::uint16_t>();
  const std::uint8_t *const scales = fields.bytes(4), *const low = fields.bytes(128);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t j = i / kShort;
    const int s = (scales[j / 2] >> j % 2 * 4 & 15) | (high >> 2 * j & 3) << 4;
    to[i] = d * static_cast<float>(s - 32) * kNonlinear[nibble(low + j * kShort / 2, i % kShort)];
  }
}

// A byte is a fraction of 3^5 parts of 256, whose digit k of base 3 is element k's.
void read_tq1_0(float* to, const std::byte* block) {
  constexpr int kPower[] = {1, 3, 9, 27, 81};
  GgufFields fields(block);
  const std::uint8_t* const digits = fields.bytes(52);
  const float d = fields.half();
  const auto read = [&](std::size_t first, std::size_t bytes, std::size_t each) {
    for (std::size_t k = 0; k < each; ++k)
      for (std::size_t i = first; i < first + bytes; ++i)
        *to++ = static_cast<float>(((digits[i] * kPower[k] & 255) * 3 >> 8) - 1) * d;
  };
  read(0, 32, 5);
  read(32, 16, 5);
  read(48, 4, 4);
}

void read_tq2_0(float* to, const std::byte* block) {
  GgufFields fields(block);
  const std::uint8_t* const low = fields.bytes(64);
  const float d = fields.half();
  for (std::size_t i = 0; i < kSuper; ++i) to[i] = static_cast<float>(pair_of_bits(low, i) - 1) * d;
}

void read_mxfp4(float* to, const std::byte* block) {
  GgufFields fields(block);
  const int exponent = fields.number<std::uint8_t>() - 127;
  const std::uint8_t* const low = fields.bytes(kShort / 2);
  for (std::size_t i = 0; i < kShort; ++i) to[i] = std::ldexp(kE2m1[nibble(low, i)], exponent);
}

// E4M3's numbers without a sign, which goes on where that has none: bit 7 is nothing, 0x7f is 0.
float scale_of_nvfp4(std::uint8_t bits) {
  if (bits == 0x7f) return 0;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  return std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + 8),
                    std::max(exponent, 1) - 10);
}

void read_nvfp4(float* to, const std::byte* block) {
  GgufFields fields(block);
  constexpr std::size_t kParts = 4, kOfPart = 16;
  const std::uint8_t *const scales = fields.bytes(kParts), *const low =
                                                               fields.bytes(kParts * kOfPart / 2);
  for (std::size_t i = 0; i < kParts * kOfPart; ++i) {
    const std::uint8_t byte = low[i / kOfPart * kOfPart / 2 + i % (kOfPart / 2)];
    to[i] = scale_of_nvfp4(scales[i / kOfPart]) *
            kE2m1[i % kOfPart < kOfPart / 2 ? byte & 15 : byte >> 4];
  }
}

constexpr GgufBlocks kBlocks[] = {
    {GgufType::q4_0, "q4_0", kShort, 18, read_short<false, false>},
    {GgufType::q4_1, "q4_1", kShort, 20, read_short<false, true>},
    {GgufType::q5_0, "q5_0", kShort, 22, read_short<true, false>},
    {GgufType::q5_1, "q5_1", kShort, 24, read_short<true, true>},
    {GgufType::q8_0, "q8_0", kShort, 34, read_q8_0},
    {GgufType::q2_k, "q2_k", kSuper, 84, read_q2_k},
    {GgufType::q3_k, "q3_k", kSuper, 110, read_q3_k},
    {GgufType::q4_k, "q4_k", kSuper, 144, read_q4_k_or_q5_k<false>},
    {GgufType::q5_k, "q5_k", kSuper, 176, read_q4_k_or_q5_k<true>},
    {GgufType::q6_k, "q6_k", kSuper, 210, read_q6_k},
    {GgufType::iq2_xxs, "iq2_xxs", kSuper, 66, read_iq2_xxs},
    {GgufType::iq2_xs, "iq2_xs", kSuper, 74, read_iq2_xs},
    {GgufType::iq3_xxs, "iq3_xxs", kSuper, 98, read_iq3_xxs},
    {GgufType::iq1_s, "iq1_s", kSuper, 50, read_iq1_s},
    {GgufType::iq4_nl, "iq4_nl", kShort, 18, read_iq4_nl},
    {GgufType::iq3_s, "iq3_s", kSuper, 110, read_iq3_s},
    {GgufType::iq2_s, "iq2_s", kSuper, 82, read_iq2_s},
    {GgufType::iq4_xs, "iq4_xs", kSuper, 136, read_iq4_xs},
    {GgufType::iq1_m, "iq1_m", kSuper, 56, read_iq1_m},
    {GgufType::tq1_0, "tq1_0", kSuper, 54, read_tq1_0},
    {GgufType::tq2_0, "tq2_0", kSuper, 66, read_tq2_0},
    {GgufType::mxfp4, "mxfp4", kShort, 17, read_mxfp4},
    {GgufType::nvfp4, "nvfp4", 64, 36, read_nvfp4},
};

}  // namespace

const GgufBlocks* gguf_blocks(GgufType type) {
  const auto* const found = std::ranges::find(kBlocks, type, &GgufBlocks::type);
  return found == std::end(kBlocks) ? nullptr : found;
}

const GgufBlocks* gguf_blocks(std::string_view name) {
  const auto* const found = std::ranges::find(kBlocks, name, &GgufBlocks::name);
  return found == std::end(kBlocks) ? nullptr : found;
}

bool dequantize(const GgufBlocks& of, float* elements, std::span<const std::byte> blocks) {
  const auto count = static_cast<std::size_t>(of.elements);
  bool finite = true;
  for (; !blocks.empty(); blocks = blocks.subspan(of.bytes), elements += count) {
    of.dequantize(elements, blocks.data());
    for (std::size_t i = 0; i < count; ++i) finite = finite && std::isfinite(elements[i]);
  }
  return finite;
}

bool has_finite_scales(const GgufBlocks& of, std::span<const std::byte> blocks) {
  float elements[kLongGgufBlock];
  bool finite = true;
  for (; finite && !blocks.empty(); blocks = blocks.subspan(of.bytes))
    finite = dequantize(of, elements, blocks.first(of.bytes));
  return finite;
}

std::string name_of(GgufType type) {
  constexpr std::pair<std::uint32_t, std::string_view> kOthers[] = {
      {0, "f32"},  {1, "f16"},  {9, "q8_1"}, {15, "q8_k"}, {24, "i8"},
      {25, "i16"}, {26, "i32"}, {27, "i64"}, {28, "f64"},  {30, "bf16"}};
  if (const GgufBlocks* const blocks = gguf_blocks(type)) return std::string(blocks->name);
  for (const auto& [number, name] : kOthers)
    if (number == static_cast<std::uint32_t>(type)) return std::string(name);
  return std::to_string(static_cast<std::uint32_t>(type));
}

}  // namespace mt
