// kernels/alibi.h: what ALiBi adds to the scores of attention for how far a key is from a query
// (Press et al.: arXiv:2108.12409, section 3).
//   bias[h, r] = slope(first_head + h) r                  for -length < r < length
//   slope(i) = 2^(-8 (i + 1) / n)                         for i < n
//            = 2^(-4 (2 (i - n) + 1) / n)                 behind these
// n is the largest power of two that is no more than all_heads, of which the second slopes are
// every other one of 2 n heads.  r is the key's position less the query's.
// bias: [heads, 2 length - 1], from r = 1 - length on.  T: float or double.
#pragma once

#include <cstdint>

namespace mt {
struct AlibiShape {
  std::int64_t length = 0, heads = 0, all_heads = 0, first_head = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void alibi(T* bias, const AlibiShape& shape);
}
