#include <algorithm>
#include <cmath>

#include "kernels/loops.h"
#include "kernels/retrieval_loss.h"

namespace mt::cpu {

template <class T>
void retrieval_loss(T* loss, T* hit, T* s, const T* w, const RetrievalShape& shape,
                    const RetrievalTops& tops) {
  const std::int64_t n = shape.n, cols = shape.contexts();
  for_blocks(n, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const row = s + i * cols;
      const std::int64_t at = i * shape.each;
      const T own = row[at], largest = *std::max_element(row, row + cols);
      T sum = 0;
      std::int64_t before = 0;
      for (std::int64_t j = 0; j < cols; ++j) {
        sum += std::exp(row[j] - largest);
        before += !(own > row[j] || (own == row[j] && at <= j));  // so is a NaN
      }
      const T lse = largest + std::log(sum);
      loss[i] = lse - own;
      for (int k = 0; k < tops.count; ++k)
        hit[k * n + i] = own == own && before < tops.top[k] ? T(100) : T(0);
      if (w == nullptr) continue;
      for (std::int64_t j = 0; j < cols; ++j)
        row[j] = w[i] * (std::exp(row[j] - lse) - (j == at ? T(1) : T(0)));
    }
  });
}

#define INSTANTIATE(T) \
  template void retrieval_loss(T*, T*, T*, const T*, const RetrievalShape&, const RetrievalTops&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
