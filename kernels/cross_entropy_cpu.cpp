#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {

template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t vocab, double smoothing) {
  // target[c] = (1 - t) [c = label] + t / vocab
  const bool smooth = smoothing > 0 && vocab > 1;
  const T n = static_cast<T>(vocab);
  const T t = smooth ? static_cast<T>(smoothing) * n / (n - 1) : T(0);
  for_blocks(rows, rows_per_block(vocab), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      T* row = logits + r * vocab;
      const T top = row_max(row, vocab), label = row[labels[r]];
      const T mean = smooth ? sum<T>(vocab, [&](std::int64_t c) { return row[c]; }) / n : label;
      const T total = row_exp_sum(row_weight ? row : nullptr, row, top, vocab);
      loss[r] = std::log(total) + (top - label) + t * (label - mean);
      if (!row_weight) continue;
      const T factor = row_weight[r] / total;
      const T shared = row_weight[r] * t / n;  // 0 without smoothing
      for (std::int64_t c = 0; c < vocab; ++c) row[c] = row[c] * factor - shared;
      row[labels[r]] -= row_weight[r] * (1 - t);
    }
  });
}

template void cross_entropy(float*, float*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t, double);
template void cross_entropy(double*, double*, const std::int32_t*, const double*, std::int64_t,
                            std::int64_t, double);

}  // namespace mt::cpu
