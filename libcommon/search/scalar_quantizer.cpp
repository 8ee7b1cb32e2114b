#include "search/scalar_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/isa.h"

namespace mt {
namespace {

// The first bit of a number's code in that of its vector, and how many.
struct Place {
  std::size_t byte;
  unsigned shift, bits;
};

Place place_of(std::int64_t column, std::int64_t bits) {
  const std::int64_t first = column * bits;
  return {static_cast<std::size_t>(first / 8), static_cast<unsigned>(first % 8),
          static_cast<unsigned>(bits)};
}

void put(std::uint8_t* code, const Place& place, unsigned value) {
  const unsigned shifted = value << place.shift;
  code[place.byte] = static_cast<std::uint8_t>(code[place.byte] | (shifted & 0xff));
  if (place.shift + place.bits > 8)
    code[place.byte + 1] = static_cast<std::uint8_t>(code[place.byte + 1] | shifted >> 8);
}

// faiss rounds ties away from zero, of both kinds.
std::uint16_t brain_bits(float x) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0x8000) >> 16);
}

std::uint16_t half_bits(float x) {
  const Fp16 half(x);
  Fp16 more;
  more.bits = static_cast<std::uint16_t>(half.bits + 1);
  const float far = std::abs(x), less = std::abs(static_cast<float>(half));
  const bool is_tie = far > less && far - less == std::abs(static_cast<float>(more)) - far;
  return is_tie ? more.bits : half.bits;
}

}  // namespace

void ScalarQuantizer::train(std::span<const float> vectors) {
  if (!has_ranges()) return;
  const auto count = static_cast<std::size_t>(columns);
  std::vector<float> low(vectors.begin(), vectors.begin() + columns), high = low;
  for (std::size_t i = count; i < vectors.size(); ++i) {
    low[i % count] = std::min(low[i % count], vectors[i]);
    high[i % count] = std::max(high[i % count], vectors[i]);
  }
  for (std::size_t i = 0; i < count; ++i) high[i] -= low[i];
  ranges = std::move(low);
  ranges.insert(ranges.end(), high.begin(), high.end());
}

std::vector<std::uint8_t> ScalarQuantizer::encode(std::span<const float> vectors) const {
  const auto count = static_cast<std::size_t>(columns),
             size = static_cast<std::size_t>(code_size());
  std::vector<std::uint8_t> codes(vectors.size() / count * size);
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    std::uint8_t* const code = &codes[i / count * size];
    const std::size_t column = i % count;
    if (!has_ranges()) {
      const std::uint16_t half =
          kind == Kind::bf16 ? brain_bits(vectors[i]) : half_bits(vectors[i]);
      std::memcpy(code + 2 * column, &half, sizeof half);
      continue;
    }
    const float low = ranges[column], width = ranges[count + column];
    const float at = width == 0 ? 0 : (vectors[i] - low) / width;
    const auto most = static_cast<float>((1 << bits()) - 1);
    put(code, place_of(static_cast<std::int64_t>(column), bits()),
        at > 0 ? static_cast<unsigned>(most * std::min(at, 1.0F)) : 0);
  }
  return codes;
}

void ScalarQuantizer::decode(const std::uint8_t* code, float* vector) const {
  const auto all = [&](Kind of) __attribute__((always_inline)) {
    const NumberCodes codes = {of, columns, ranges.data()};
    for (std::int64_t i = 0; i < columns; ++i) vector[i] = codes.number(code, i);
  };
  cpu::run([&] {  // a loop of its own for each kind
    if (kind == Kind::bits8) return all(Kind::bits8);
    if (kind == Kind::fp16) return all(Kind::fp16);
    if (kind == Kind::bf16) return all(Kind::bf16);
    all(kind);
  });
}

}  // namespace mt
