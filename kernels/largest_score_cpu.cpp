#include "kernels/largest_score.h"

#include <algorithm>
#include <limits>

#include "kernels/attention_place.h"
#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void add_largest_scores(double* largest, const T* q, const T* k, const std::int32_t* first_key,
                        const AttentionShape& shape) {
  const Dropout none{};
  const T scale = static_cast<T>(shape.scale);
  parallel_for(shape.heads, [&](std::int64_t head) {
    run([&] {
      T most = -std::numeric_limits<T>::infinity();
      for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
        const AttentionPlace at{shape, none, first_key, sequence, head};
        for (std::int64_t i = 0; i < shape.q_length; ++i)
          for (std::int64_t j = at.first(i); j < at.end(i); ++j) {
            const T *const a = q + at.q_row(i), *const b = k + at.kv_row(j);
            most = std::max(
                most, scale * sum<T>(shape.head_dim, [&](std::int64_t c) { return a[c] * b[c]; }));
          }
      }
      largest[head] = std::max(largest[head], static_cast<double>(most));
    });
  });
}

template void add_largest_scores(double*, const float*, const float*, const std::int32_t*,
                                 const AttentionShape&);
template void add_largest_scores(double*, const double*, const double*, const std::int32_t*,
                                 const AttentionShape&);

}  // namespace mt::cpu
