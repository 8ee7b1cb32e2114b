#include "kernels/attention_sink.h"

#include <algorithm>
#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void add_sink(T* o, T* lse, const T* sink, const SinkShape& s) {
  parallel_for(s.rows(), [&](std::int64_t row) {
    const std::int64_t sequence = row / s.q_length, i = row % s.q_length;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      T& of_keys = lse[(sequence * s.heads + h) * s.q_length + i];
      const T score = sink != nullptr ? sink[h] : T(0), top = std::max(of_keys, score);
      const T all = top + std::log(std::exp(of_keys - top) + std::exp(score - top));
      const T part = std::exp(of_keys - all);
      T* const found = o + (row * s.heads + h) * s.head_dim;
      for (std::int64_t c = 0; c < s.head_dim; ++c) found[c] *= part;
      of_keys = all;
    }
  });
}

template <class T>
void sink_backward(T* d_sink, const T* d_o, const T* o, const T* lse, const T* sink,
                   const SinkShape& s) {
  parallel_for(s.heads, [&](std::int64_t h) {
    T total = 0;
    for (std::int64_t row = 0; row < s.rows(); ++row) {
      const std::int64_t sequence = row / s.q_length, i = row % s.q_length,
                         at = (row * s.heads + h) * s.head_dim;
      const T delta = sum<T>(s.head_dim, [&](std::int64_t c) { return d_o[at + c] * o[at + c]; });
      total += std::exp(sink[h] - lse[(sequence * s.heads + h) * s.q_length + i]) * delta;
    }
    d_sink[h] -= total;
  });
}

#define INSTANTIATE(T)                                        \
  template void add_sink(T*, T*, const T*, const SinkShape&); \
  template void sink_backward(T*, const T*, const T*, const T*, const T*, const SinkShape&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
