// kernels/divisor.cuh: n / d, rounded down, for a d > 0 that the host knows: in 32 bits four
// instructions (Granlund, Montgomery: "Division by invariant integers using multiplication",
// PLDI 1994, figure 4.1).
#pragma once

#include <bit>
#include <cstdint>

namespace mt::cuda {

template <class Index>
class Divisor {
 public:
  explicit Divisor(Index d) : d_(d) {}
  __device__ Index operator()(Index n) const { return n / d_; }

 private:
  Index d_;
};

template <>
class Divisor<std::uint32_t> {
 public:
  explicit Divisor(std::uint32_t d) {
    const int bits = std::bit_width(d - 1);
    multiplier_ = static_cast<std::uint32_t>((((std::uint64_t{1} << bits) - d) << 32) / d + 1);
    shift_ = bits > 0 ? 1 : 0;
    last_shift_ = bits - shift_;
  }
  __device__ std::uint32_t operator()(std::uint32_t n) const {
    const std::uint32_t high = __umulhi(multiplier_, n);
    return (high + ((n - high) >> shift_)) >> last_shift_;
  }

 private:
  std::uint32_t multiplier_;
  int shift_, last_shift_;
};

}  // namespace mt::cuda
