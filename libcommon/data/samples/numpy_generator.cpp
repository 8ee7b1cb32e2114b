#include "data/samples/numpy_generator.h"

#include <array>
#include <bit>

namespace mt {
namespace {

// numpy/random/bit_generator.pyx, SeedSequence of one word.
struct SeedSequence {
  std::array<std::uint32_t, 4> pool = {};

  explicit SeedSequence(std::uint32_t seed) {
    std::uint32_t in_hash = 0x43b0d7e5;
    const auto mixed_in = [&](std::uint32_t value) {
      value ^= in_hash;
      in_hash *= 0x931e8875;
      value *= in_hash;
      return value ^ value >> 16;
    };
    for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = mixed_in(i == 0 ? seed : 0);
    for (std::size_t from = 0; from < pool.size(); ++from)
      for (std::size_t to = 0; to < pool.size(); ++to) {
        if (from == to) continue;
        const std::uint32_t mixed = 0xca01f9ddU * pool[to] - 0x4973f715U * mixed_in(pool[from]);
        pool[to] = mixed ^ mixed >> 16;
      }
  }

  // Word i of what generate_state() gives; called in order.
  std::uint32_t out_hash = 0x8b51f9dd;
  std::uint32_t word(std::size_t i) {
    std::uint32_t value = pool[i % pool.size()] ^ out_hash;
    out_hash *= 0x58f38ded;
    value *= out_hash;
    return value ^ value >> 16;
  }
};

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint32_t seed) {
  SeedSequence sequence(seed);
  std::array<std::uint64_t, 4> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t low = sequence.word(2 * i);
    words[i] = low | std::uint64_t{sequence.word(2 * i + 1)} << 32;
  }
  increment_ = (Wide{words[2]} << 64 | words[3]) << 1 | 1;
  state_ = increment_;  // one step from 0
  state_ += Wide{words[0]} << 64 | words[1];
  next64();
}

std::uint64_t NumpyGenerator::next64() {
  constexpr Wide kMultiplier = Wide{0x2360ED051FC65DA4} << 64 | 0x4385DF649FCCF645;
  state_ = state_ * kMultiplier + increment_;
  return std::rotr(static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_),
                   static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyGenerator::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const std::uint64_t both = next64();
  half_ = static_cast<std::uint32_t>(both >> 32);
  has_half_ = true;
  return static_cast<std::uint32_t>(both);
}

std::int64_t NumpyGenerator::integer(std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint32_t>(high - low);
  std::uint64_t product = std::uint64_t{next32()} * range;
  if (static_cast<std::uint32_t>(product) < range) {
    const std::uint32_t threshold = -range % range;  // 2^32 mod range
    while (static_cast<std::uint32_t>(product) < threshold)
      product = std::uint64_t{next32()} * range;
  }
  return low + static_cast<std::int64_t>(product >> 32);
}

}  // namespace mt
