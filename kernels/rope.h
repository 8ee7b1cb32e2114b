// kernels/rope.h: rotary position embedding in place (Su et al.: arXiv:2104.09864), half-split.
//   angle = position inv_freq[i];  channels (x[i], x[i + r/2]) turn by it, i < r/2
//   (a, b) -> (a cos - b sin, b cos + a sin);  `inverse` turns back, which is the backward pass
// x: [tokens, heads, head_dim], of which channels >= rotary_dim pass through;  positions: [tokens];
// inv_freq: [rotary_dim / 2], f64.  Angles, sines and cosines are f64, rounded once to T.
// T: float or double.
#pragma once

#include <cstdint>

namespace mt::cpu {
template <class T>
void rope(T* x, const std::int32_t* positions, const double* inv_freq, std::int64_t tokens,
          std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim, bool inverse);
}
