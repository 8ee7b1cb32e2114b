// kernels/past_states.h: hidden states of tokens in the pages of a cache (cached_qkv.h says where a
// token's place is), from which the tokens behind them read those of the token before.
//   keep_states     states[place(p)] = x[t]                       p = positions[t]
//   states_before   x[t] = states[place(max(0, p - 1))]           first[t] = min(p, least)
// x: [tokens, cols];  states: [slots, capacity, cols];  positions, first: [tokens]
// slots: [sequences, runs], which have as many of the tokens each
// T: float or double; on the GPU float, bf16 or fp16.
#pragma once

#include <cstdint>

#include "kernels/cache_place.h"
#include "kernels/cuda_types.h"

namespace mt {
struct PastStatesShape {
  std::int64_t tokens = 0, sequences = 0, cols = 0, capacity = 0, runs = 1;

  // Where a token of this position has its state.
  constexpr std::int64_t place(const std::int32_t* slots, std::int64_t token,
                               std::int64_t position) const {
    return row_in_cache(slots, runs, capacity, token / (tokens / sequences), position);
  }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void keep_states(T* states, const T* x, const std::int32_t* positions, const std::int32_t* slots,
                 const PastStatesShape& shape);
template <class T>
void states_before(T* x, std::int32_t* first, const T* states, const std::int32_t* positions,
                   const std::int32_t* slots, std::int32_t least, const PastStatesShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void keep_states(T* states, const T* x, const std::int32_t* positions, const std::int32_t* slots,
                 const PastStatesShape& shape, cudaStream_t stream);
template <class T>
void states_before(T* x, std::int32_t* first, const T* states, const std::int32_t* positions,
                   const std::int32_t* slots, std::int32_t least, const PastStatesShape& shape,
                   cudaStream_t stream);
}  // namespace mt::cuda
