// Counter-based random numbers: a function of a key and a counter, never a state (DESIGN D5).
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11).
#pragma once

#include <array>
#include <cstdint>

namespace mt {

// What a random number is for: the run's seed and a purpose (a layer and an operation, or a
// weight's name).  Two purposes of one seed give independent streams.
struct RandomKey {
  std::uint32_t seed_low = 0, purpose = 0;
  static constexpr RandomKey make(std::uint64_t seed, std::uint32_t purpose) {
    // The seed's high half moves the purpose by an odd multiple, so 64-bit seeds stay distinct.
    return {static_cast<std::uint32_t>(seed),
            purpose + 0x9E3779B9u * static_cast<std::uint32_t>(seed >> 32)};
  }
};

using Counter = std::array<std::uint32_t, 4>;

// Four independent, uniformly distributed 32-bit words.  With 7 rounds, the fewest that pass every
// test of the paper, they are other words.
template <int kRounds = 10>
constexpr Counter philox(Counter counter, RandomKey key) {
  std::uint32_t k0 = key.seed_low, k1 = key.purpose;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in (0, 1): the middle of one of 2^32 equal intervals.
constexpr double to_unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

}  // namespace mt
