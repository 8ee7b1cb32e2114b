// kernels/update.h: what an optimizer's rules go by on the GPU: which elements share what
// multipliers.
#pragma once

#include <cstdint>

namespace mt {

// Consecutive elements of flat buffers that share their multipliers: element i is first + i of the
// parameters, first + gradient_shift + i of their gradients, state + i of what is remembered of
// them.  On a GPU one block works on a chunk: cut parameters into chunks of at most kUpdateChunk
// elements.
struct UpdateChunk {
  std::int64_t first = 0, state = 0, count = 0;
  double lr_mult = 1, decay_mult = 1;
  std::int64_t gradient_shift = 0;
};
inline constexpr std::int64_t kUpdateChunk = 4096;

}  // namespace mt
