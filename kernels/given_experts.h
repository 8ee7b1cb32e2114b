// kernels/given_experts.h: experts that tokens are sent to whatever a router chooses, and those
// that a cache keeps of tokens.
//   take   expert[t, j] = given[s, first + j, i], t being the i-th of the tokens of sequence s,
//          unless that is -1
//   keep   cache[row of t (kernels/cache_place.h), j] = expert[t, j], of sequences of as many
//   tokens
// expert: [tokens, chosen] i32, ascending;  given: [sequences, width, length] i32, of which expert
// has the tokens from first_token on;  cache: [slots, capacity, chosen] i32;  positions: [tokens];
// slots: [sequences, runs].
#pragma once

#include <cstdint>

#include "kernels/cache_place.h"
#include "kernels/cuda_types.h"

namespace mt {
struct GivenShape {
  std::int64_t tokens = 0, chosen = 0, first_token = 0;
  std::int64_t length = 0, width = 0, first = 0;
  // Where what is given of slot i of `expert` is.
  constexpr std::int64_t place(std::int64_t i) const {
    const std::int64_t token = first_token + i / chosen;
    return (token / length * width + first + i % chosen) * length + token % length;
  }
};
struct KeptShape {
  std::int64_t tokens = 0, chosen = 0, length = 0, capacity = 0, runs = 1;
};
struct KeptPlaces {
  const std::int32_t *positions, *slots;
};
}  // namespace mt

namespace mt::cpu {
void take_experts(std::int32_t* expert, const std::int32_t* given, const GivenShape& shape);
void keep_experts(std::int32_t* cache, const std::int32_t* expert, const KeptPlaces& places,
                  const KeptShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
void take_experts(std::int32_t* expert, const std::int32_t* given, const GivenShape& shape,
                  cudaStream_t stream);
void keep_experts(std::int32_t* cache, const std::int32_t* expert, const KeptPlaces& places,
                  const KeptShape& shape, cudaStream_t stream);
}  // namespace mt::cuda
