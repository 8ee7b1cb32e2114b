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
  explicit Divisor(Index d) : d_(d) {
    if constexpr (k32Bits) {
      shift_ = static_cast<std::uint32_t>(std::bit_width(d - 1));
      multiplier_ = static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - d) << 32) / d + 1);
    }
  }
  __device__ Index operator()(Index n) const {
    if constexpr (k32Bits) {
      const std::uint32_t high = __umulhi(multiplier_, n);
      return shift_ > 0 ? (high + ((n - high) >> 1)) >> (shift_ - 1) : n;
    } else {
      return n / d_;
    }
  }

 private:
  static constexpr bool k32Bits = sizeof(Index) == 4;
  Index d_;
  std::uint32_t multiplier_ = 0, shift_ = 0;  // shift_: the bits of d - 1
};

// body.operator()<Index>() with places of 32 bits if those do, else of 64.
template <class Body>
void with_index(bool narrow, const Body& body) {
  if (narrow)
    body.template operator()<std::uint32_t>();
  else
    body.template operator()<std::uint64_t>();
}

}  // namespace mt::cuda
