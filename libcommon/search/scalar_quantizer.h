// ScalarQuantizer: codes of vectors, some bits for each of their numbers, as faiss's
// (kernels/number_codes.h says what they stand for): of 8, 6 or 4 bits, those of where a number
// lies between the smallest and the largest of its column in training,
//   code = floor(m (x - low) / width),  m = 2^bits - 1,
// or fp16 or bf16.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/number_codes.h"

namespace mt {

struct ScalarQuantizer {
  using Kind = NumberCodes::Kind;
  struct Name {
    std::string_view name;  // in faiss's index strings
    Kind kind;
  };
  static constexpr Name kNames[] = {{"SQ8", Kind::bits8},
                                    {"SQ6", Kind::bits6},
                                    {"SQ4", Kind::bits4},
                                    {"SQfp16", Kind::fp16},
                                    {"SQbf16", Kind::bf16}};

  Kind kind = Kind::bits8;
  std::int64_t columns = 0;
  std::vector<float> ranges = {};  // low [columns], then width [columns]; of 16 bits none

  std::int64_t bits() const { return NumberCodes::bits_of(kind); }
  bool has_ranges() const { return bits() < 16; }
  bool trained() const { return !has_ranges() || !ranges.empty(); }
  std::int64_t code_size() const { return (columns * bits() + 7) / 8; }  // bytes of a vector
  void train(std::span<const float> vectors);
  std::vector<std::uint8_t> encode(std::span<const float> vectors) const;
  void decode(const std::uint8_t* code, float* vector) const;
  bool operator==(const ScalarQuantizer&) const = default;
};

}  // namespace mt
