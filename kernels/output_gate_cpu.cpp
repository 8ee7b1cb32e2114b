#include "kernels/output_gate.h"

#include <algorithm>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {

template <class T>
void output_gate_forward(T* y, const T* x, const T* g, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] * sigmoid(g[i]);
  });
}

template <class T>
void output_gate_backward(T* dx, T* dg, const T* dy, const T* x, const T* g, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T open = sigmoid(g[i]), d = dy[i];
      dg[i] = d * x[i] * open * (1 - open);
      dx[i] = d * open;
    }
  });
}

template <class T>
void split_gates(T* q, T* g, const T* both, std::int64_t groups, std::int64_t width) {
  for_blocks(groups, rows_per_block(2 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(both + 2 * i * width, width, q + i * width);
      std::copy_n(both + (2 * i + 1) * width, width, g + i * width);
    }
  });
}

template <class T>
void merge_gates(T* both, const T* q, const T* g, std::int64_t groups, std::int64_t width) {
  for_blocks(groups, rows_per_block(2 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(q + i * width, width, both + 2 * i * width);
      std::copy_n(g + i * width, width, both + (2 * i + 1) * width);
    }
  });
}

#define INSTANTIATE(T)                                                                    \
  template void output_gate_forward(T*, const T*, const T*, std::int64_t);                \
  template void output_gate_backward(T*, T*, const T*, const T*, const T*, std::int64_t); \
  template void split_gates(T*, T*, const T*, std::int64_t, std::int64_t);                \
  template void merge_gates(T*, const T*, const T*, std::int64_t, std::int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
