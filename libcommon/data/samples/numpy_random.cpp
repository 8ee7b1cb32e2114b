#include "data/samples/numpy_random.h"

namespace mt {

RandomState::RandomState(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
}

RandomState::RandomState(std::span<const std::uint32_t> key) : RandomState(19650218U) {
  std::size_t i = 1, j = 0;
  const auto mixed = [&](std::uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ state_[i - 1] >> 30) * factor);
  };
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (std::size_t k = std::max(kWords, key.size()); k > 0; --k, advance()) {
    state_[i] = mixed(1664525U) + key[j] + static_cast<std::uint32_t>(j);
    j = j + 1 == key.size() ? 0 : j + 1;
  }
  for (std::size_t k = kWords - 1; k > 0; --k, advance())
    state_[i] = mixed(1566083941U) - static_cast<std::uint32_t>(i);
  state_[0] = 0x80000000U;
}

// The recurrence in three runs, in each of which nothing is read that it writes, but for one word.
void RandomState::refill() {
  constexpr std::size_t kShift = 397;
  const auto next = [&](std::size_t i, std::size_t after, std::size_t far) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[after] & 0x7FFFFFFFU);
    state_[i] = state_[far] ^ y >> 1 ^ ((0U - (y & 1U)) & 0x9908B0DFU);
  };
  for (std::size_t i = 0; i < kWords - kShift; ++i) next(i, i + 1, i + kShift);
  for (std::size_t i = kWords - kShift; i < kWords - 1; ++i) next(i, i + 1, i + kShift - kWords);
  next(kWords - 1, 0, kShift - 1);
  for (std::size_t i = 0; i < kWords; ++i) {
    std::uint32_t y = state_[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680U;
    y ^= (y << 15) & 0xEFC60000U;
    words_[i] = y ^ y >> 18;
  }
  next_ = 0;
}

}  // namespace mt
