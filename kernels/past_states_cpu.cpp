#include <algorithm>

#include "kernels/loops.h"
#include "kernels/past_states.h"

namespace mt::cpu {

template <class T>
void keep_states(T* states, const T* x, const std::int32_t* positions, const std::int32_t* slots,
                 const PastStatesShape& s) {
  for_blocks(s.tokens, rows_per_block(s.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      std::copy_n(x + t * s.cols, s.cols, states + s.place(slots, t, positions[t]) * s.cols);
  });
}

template <class T>
void states_before(T* x, std::int32_t* first_key, const T* states, const std::int32_t* positions,
                   const std::int32_t* slots, std::int32_t least, const PastStatesShape& s) {
  for_blocks(s.tokens, rows_per_block(s.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t before = std::max(0, positions[t] - 1);
      std::copy_n(states + s.place(slots, t, before) * s.cols, s.cols, x + t * s.cols);
      first_key[t] = std::min(positions[t], least);
    }
  });
}

#define INSTANTIATE(T)                                                              \
  template void keep_states(T*, const T*, const std::int32_t*, const std::int32_t*, \
                            const PastStatesShape&);                                \
  template void states_before(T*, std::int32_t*, const T*, const std::int32_t*,     \
                              const std::int32_t*, std::int32_t, const PastStatesShape&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
