#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {

template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t vocab) {
  for_blocks(rows, rows_per_block(vocab), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      T* row = logits + r * vocab;
      const T top = row_max(row, vocab), target = row[labels[r]];
      const T total = row_exp_sum(row_weight ? row : nullptr, row, top, vocab);
      loss[r] = std::log(total) + (top - target);
      if (!row_weight) continue;
      const T factor = row_weight[r] / total;
      for (std::int64_t c = 0; c < vocab; ++c) row[c] *= factor;
      row[labels[r]] -= row_weight[r];
    }
  });
}

template void cross_entropy(float*, float*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t);
template void cross_entropy(double*, double*, const std::int32_t*, const double*, std::int64_t,
                            std::int64_t);

}  // namespace mt::cpu
