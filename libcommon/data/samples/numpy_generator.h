// NumpyGenerator: what numpy.random.default_rng(seed) draws, number for number: PCG64 (XSL-RR
// 128/64, pcg-random.org) seeded by numpy's SeedSequence, and Lemire's bounded integers
// (arXiv:1805.10941).
#pragma once

#include <cstdint>

namespace mt {

class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint32_t seed);

  std::uint64_t next64();
  std::uint32_t next32();  // halves of one next64(), the low one first
  double random() { return static_cast<double>(next64() >> 11) / 9007199254740992.0; }  // [0, 1)
  // Uniform in [low, high), as integers(low, high, dtype=numpy.int32) draws; low < high.
  std::int64_t integer(std::int64_t low, std::int64_t high);

 private:
  using Wide = unsigned __int128;
  Wide state_ = 0, increment_ = 0;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

}  // namespace mt
