#include "kernels/relative_bias.h"

namespace mt::cpu {

// f(place in bias, place in table)
template <class F>
static void for_each(const RelativeShape& s, const F& f) {
  for (std::int64_t h = 0; h < s.heads; ++h)
    for (std::int64_t i = 0; i < s.span(); ++i)
      f(h * s.span() + i, s.buckets(i - s.length + 1) * s.all_heads + s.first_head + h);
}

template <class T>
void relative_bias(T* bias, const T* table, const RelativeShape& s) {
  for_each(s, [&](std::int64_t i, std::int64_t of) { bias[i] = table[of]; });
}

template <class T>
void relative_bias_backward(T* d_table, const T* d_bias, const RelativeShape& s) {
  for_each(s, [&](std::int64_t i, std::int64_t of) { d_table[of] += d_bias[i]; });
}

template void relative_bias(float*, const float*, const RelativeShape&);
template void relative_bias(double*, const double*, const RelativeShape&);
template void relative_bias_backward(float*, const float*, const RelativeShape&);
template void relative_bias_backward(double*, const double*, const RelativeShape&);

}  // namespace mt::cpu
