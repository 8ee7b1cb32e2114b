// RandomState: numpy's legacy generator, number for number.  std::mt19937(seed) gives the stream of
// numpy.random.RandomState(seed) for an integer seed below 2^32; what numpy draws from that stream
// is in numpy/random/mtrand.pyx and src/distributions/distributions.c (random_interval).
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>

namespace mt {

class RandomState {
 public:
  explicit RandomState(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t next32() { return static_cast<std::uint32_t>(engine_()); }
  std::uint64_t next64() {
    const std::uint64_t high = next32();
    return high << 32 | next32();
  }

  // Uniform in [0, 1), 53 bits.
  double random() {
    const double high = next32() >> 5, low = next32() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  // Uniform in [0, max]; draws nothing for 0.
  std::uint64_t interval(std::uint64_t max) {
    if (max == 0) return 0;
    std::uint64_t mask = max;
    for (int shift = 1; shift <= 32; shift *= 2) mask |= mask >> shift;
    const bool narrow = max <= std::numeric_limits<std::uint32_t>::max();
    for (;;) {
      const std::uint64_t value = (narrow ? next32() : next64()) & mask;
      if (value <= max) return value;
    }
  }

  // Uniform in [low, high), low < high.
  std::int64_t randint(std::int64_t low, std::int64_t high) {
    const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + interval(range - 1));
  }

  template <class T>
  void shuffle(std::span<T> values) {
    if (values.empty()) return;
    for (std::size_t i = values.size() - 1; i > 0; --i) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace mt
