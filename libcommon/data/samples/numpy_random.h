// RandomState: numpy's legacy generator, number for number: MT19937 (Matsumoto, Nishimura:
// "Mersenne Twister", ACM TOMACS 8(1), 1998), seeded as numpy.random.RandomState(seed) and
// std::mt19937(seed) are for an integer below 2^32; what numpy draws from that stream is in
// numpy/random/mtrand.pyx and src/distributions/distributions.c (random_interval).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace mt {

class RandomState {
 public:
  explicit RandomState(std::uint32_t seed);
  // numpy.random.RandomState([key[0], ...]), and Python's random.Random() of the integer that these
  // words are; at least one.
  explicit RandomState(std::span<const std::uint32_t> key);

  std::uint32_t next32() {
    if (next_ == kWords) refill();
    return words_[next_++];
  }
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
    const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
    const bool narrow = max <= std::numeric_limits<std::uint32_t>::max();
    for (;;) {
      const std::uint64_t value = (narrow ? next32() : next64()) & mask;
      if (value <= max) return value;
    }
  }

  // Trials up to the first success of probability p, p < 1/3.
  std::int64_t geometric(double p) {
    return static_cast<std::int64_t>(std::ceil(std::log1p(-random()) / std::log(1 - p)));
  }

  // Uniform in [low, high), low < high.
  std::int64_t randint(std::int64_t low, std::int64_t high) {
    const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + interval(range - 1));
  }

  // Draws partners before it swaps, so that a large array's memory is on its way meanwhile.
  template <class T>
  void shuffle(std::span<T> values) {
    for_each_partners(values.size(),
                      [&](std::size_t last, std::span<const std::uint64_t> partners) {
                        for (const std::uint64_t partner : partners)
                          __builtin_prefetch(&values[partner], 1);
                        for (const std::uint64_t partner : partners)
                          std::swap(values[last--], values[partner]);
                      });
  }

  // Leaves the state that shuffling `size` values does.
  void skip_shuffle(std::size_t size) {
    for_each_partners(size, [](std::size_t, std::span<const std::uint64_t>) {});
  }

 private:
  static constexpr std::size_t kWords = 624, kPartners = 256;

  void refill();

  // interval(max), interval(max - 1), ... 32-bit numbers above 0 that need the same bits; without a
  // branch that depends on what is drawn.
  void intervals(std::uint64_t max, std::span<std::uint64_t> into) {
    const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
    for (std::size_t k = 0; k < into.size();) {
      into[k] = next32() & mask;
      k += into[k] <= max - k;
    }
  }

  // Draws a shuffle of `size` values: calls visit(i, partners of i, i - 1, ...) down to i = 1.
  template <class Visit>
  void for_each_partners(std::size_t size, const Visit& visit) {
    std::array<std::uint64_t, kPartners> partners;
    while (size > 1) {
      const std::uint64_t max = size - 1, alike = max - (std::bit_floor(max) - 1);
      std::size_t count = 1;
      if (max <= std::numeric_limits<std::uint32_t>::max()) {
        count = std::min<std::size_t>(alike, partners.size());
        intervals(max, std::span(partners).first(count));
      } else {
        partners[0] = interval(max);
      }
      visit(max, std::span<const std::uint64_t>(partners).first(count));
      size -= count;
    }
  }

  std::array<std::uint32_t, kWords> state_, words_;  // the recurrence; what it gives, tempered
  std::size_t next_ = kWords;
};

}  // namespace mt
