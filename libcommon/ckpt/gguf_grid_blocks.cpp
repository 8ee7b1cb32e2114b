#include "ckpt/gguf_grid_blocks.h"

#include <bit>

#include "ckpt/gguf_fields.h"
#include "ckpt/gguf_grids.h"

namespace mt {
namespace {

constexpr std::size_t kAll = 256, kEights = kAll / 8;

constexpr float kOfIq1[] = {-1, 0, 1}, kOfIq2[] = {8, 25, 43},
                kOfIq3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62},
                kOfIq3S[] = {1, 3, 5, 7, 9, 11, 13, 15};

// Eight elements of a point, or of two of four.
float in_eight(std::uint16_t point, const float* of, std::size_t i) {
  return of[point >> 2 * i & 3];
}
float in_four(std::uint16_t point, const float* of, std::size_t i) {
  return of[point >> 3 * i & 7];
}

unsigned even_signs(unsigned seven) { return seven | (std::popcount(seven) % 2 != 0 ? 128U : 0U); }

float with_sign(float x, unsigned signs, std::size_t i) { return (signs >> i & 1) != 0 ? -x : x; }

// The low four bits of a byte, or the high.
float half_of(std::uint8_t byte, std::size_t i) {
  return static_cast<float>(i % 2 == 0 ? byte & 15 : byte >> 4);
}

}  // namespace

void read_iq2_xxs(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  for (std::size_t part = 0; part < kAll / 32; ++part) {
    const std::uint8_t* const points = fields.bytes(4);
    const auto word = fields.number<std::uint32_t>();
    const float scale = d * (.5F + static_cast<float>(word >> 28)) * .25F;
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < 8; ++i)
        *to++ = with_sign(scale * in_eight(kIq2XxsGrid[points[k]], kOfIq2, i),
                          even_signs(word >> 7 * k & 127), i);
  }
}

void read_iq2_xs(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  GgufFields words(reinterpret_cast<const std::byte*>(fields.bytes(2 * kEights)));
  const std::uint8_t* const scales = fields.bytes(kAll / 32);
  for (std::size_t k = 0; k < kEights; ++k) {
    const auto word = words.number<std::uint16_t>();
    const float scale = d * (.5F + half_of(scales[k / 4], k / 2)) * .25F;
    for (std::size_t i = 0; i < 8; ++i)
      *to++ =
          with_sign(scale * in_eight(kIq2XsGrid[word & 511], kOfIq2, i), even_signs(word >> 9), i);
  }
}

void read_iq2_s(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const std::uint8_t *const low = fields.bytes(kEights), *const signs = fields.bytes(kEights),
                            *const high = fields.bytes(kAll / 32),
                            *const scales = fields.bytes(kAll / 32);
  for (std::size_t k = 0; k < kEights; ++k) {
    const auto point = static_cast<std::size_t>(low[k] | (high[k / 4] >> 2 * (k % 4) & 3) << 8);
    const float scale = d * (.5F + half_of(scales[k / 4], k / 2)) * .25F;
    for (std::size_t i = 0; i < 8; ++i)
      *to++ = with_sign(scale * in_eight(kIq2SGrid[point], kOfIq2, i), signs[k], i);
  }
}

void read_iq3_xxs(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const std::uint8_t* const points = fields.bytes(2 * kEights);
  for (std::size_t part = 0; part < kAll / 32; ++part) {
    const auto word = fields.number<std::uint32_t>();
    const float scale = d * (.5F + static_cast<float>(word >> 28)) * .5F;
    for (std::size_t j = 0; j < 32; ++j)
      *to++ = with_sign(scale * in_four(kIq3XxsGrid[points[8 * part + j / 4]], kOfIq3Xxs, j % 4),
                        even_signs(word >> 7 * (j / 8) & 127), j % 8);
  }
}

void read_iq3_s(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const std::uint8_t *const low = fields.bytes(2 * kEights), *const high = fields.bytes(kAll / 32),
                            *const signs = fields.bytes(kEights),
                            *const scales = fields.bytes(kAll / 64);
  for (std::size_t j = 0; j < kAll; ++j) {
    const std::size_t k = j / 4;
    const auto point = static_cast<std::size_t>(low[k] | (high[k / 8] >> k % 8 & 1) << 8);
    const float scale = d * (1 + 2 * half_of(scales[j / 64], j / 32));
    *to++ = with_sign(scale * in_four(kIq3SGrid[point], kOfIq3S, j % 4), signs[j / 8], j % 8);
  }
}

void read_iq1_s(float* to, const std::byte* block) {
  GgufFields fields(block);
  const float d = fields.half();
  const std::uint8_t* const low = fields.bytes(kEights);
  for (std::size_t part = 0; part < kAll / 32; ++part) {
    const auto word = fields.number<std::uint16_t>();
    const float scale = d * static_cast<float>(1 + 2 * (word >> 12 & 7)),
                off = (word & 0x8000) == 0 ? .125F : -.125F;
    for (std::size_t k = 0; k < 4; ++k) {
      const auto point = static_cast<std::size_t>(low[4 * part + k] | (word >> 3 * k & 7) << 8);
      for (std::size_t i = 0; i < 8; ++i)
        *to++ = scale * (in_eight(kIq1Grid[point], kOfIq1, i) + off);
    }
  }
}

void read_iq1_m(float* to, const std::byte* block) {
  GgufFields fields(block);
  const std::uint8_t *const low = fields.bytes(kEights), *const high = fields.bytes(kAll / 16);
  std::uint16_t words[4];
  Fp16 whole;
  for (std::size_t i = 0; i < 4; ++i) {
    words[i] = fields.number<std::uint16_t>();
    whole.bits = static_cast<std::uint16_t>(whole.bits | words[i] >> 12 << 4 * i);
  }
  const auto d = static_cast<float>(whole);
  for (std::size_t k = 0; k < kEights; ++k) {
    const std::size_t part = k / 2;  // of 16 elements
    const int half = high[part] >> 4 * (k % 2) & 15;
    const float scale = d * static_cast<float>(1 + 2 * (words[part / 4] >> 3 * (part % 4) & 7)),
                off = (half & 8) == 0 ? .125F : -.125F;
    const auto point = static_cast<std::size_t>(low[k] | (half & 7) << 8);
    for (std::size_t i = 0; i < 8; ++i)
      *to++ = scale * (in_eight(kIq1Grid[point], kOfIq1, i) + off);
  }
}

}  // namespace mt
