#include "kernels/hidden_loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void hidden_loss(T* loss, T* dx, const T* x, const T* y, const T* weight, std::int64_t rows,
                 std::int64_t cols, HiddenLoss kind) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *own = x + r * cols, *its = y + r * cols;
      T* const to = dx ? dx + r * cols : nullptr;
      if (kind == HiddenLoss::squared) {
        const auto n = static_cast<T>(cols);
        loss[r] =
            sum<T>(cols, [&](std::int64_t c) { return (own[c] - its[c]) * (own[c] - its[c]); }) / n;
        for (std::int64_t c = 0; to && c < cols; ++c)
          to[c] += weight[r] * 2 / n * (own[c] - its[c]);
        continue;
      }
      const T least = T(1e-8);
      const T norm =
          std::max(least, std::sqrt(sum<T>(cols, [&](std::int64_t c) { return own[c] * own[c]; })));
      const T its_norm =
          std::max(least, std::sqrt(sum<T>(cols, [&](std::int64_t c) { return its[c] * its[c]; })));
      const T cosine =
          sum<T>(cols, [&](std::int64_t c) { return own[c] * its[c]; }) / (norm * its_norm);
      loss[r] = 1 - cosine;
      for (std::int64_t c = 0; to && c < cols; ++c)
        to[c] -= weight[r] / norm * (its[c] / its_norm - cosine * own[c] / norm);
    }
  });
}

#define INSTANTIATE(T)                                                                        \
  template void hidden_loss(T*, T*, const T*, const T*, const T*, std::int64_t, std::int64_t, \
                            HiddenLoss)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
