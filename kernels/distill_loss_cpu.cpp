#include "kernels/distill_loss.h"

#include <algorithm>

#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {

template <class T>
void distill_sums(T* sums, const DistillRows<T, T>& rows) {
  const VocabularyPart& part = rows.part;
  const std::int64_t words = part.words();
  const T inverse = static_cast<T>(1 / rows.distance.temperature);
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *x = rows.x + r * part.cols, *y = rows.y + r * part.cols;
      const T top = row_max(x, words), top_y = row_max(y, words);
      const std::int64_t label = rows.labels[r] - part.first;
      const T all[kDistillSums] = {
          top,
          sum<T>(words, [&](std::int64_t c) { return std::exp((x[c] - top) * inverse); }),
          sum<T>(words, [&](std::int64_t c) { return std::exp(x[c] - top); }),
          top_y,
          sum<T>(words, [&](std::int64_t c) { return std::exp((y[c] - top_y) * inverse); }),
          label >= 0 && label < words ? x[label] : T(0)};
      for (std::int64_t i = 0; i < kDistillSums; ++i) sums[i * part.rows + r] = all[i];
    }
  });
}

template <class T>
void distill_parts(T* parts, const DistillRows<T, T>& rows) {
  const VocabularyPart& part = rows.part;
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const DistillRow<T> row(rows, r);
      const T *x = rows.x + r * part.cols, *y = rows.y + r * part.cols;
      T distance = 0, slope = 0;
      for (std::int64_t c = 0; c < part.words(); ++c) {
        const auto word = row.word(x[c], y[c]);
        distance += word.distance;
        slope += word.slope;
      }
      parts[r] = distance;
      parts[part.rows + r] = slope;
    }
  });
}

template <class T>
void distill_gradient(T* loss, const T* weight, const T* parts, const DistillRows<T, T>& rows) {
  const VocabularyPart& part = rows.part;
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const DistillRow<T> row(rows, r);
      loss[r] = parts[r];
      loss[part.rows + r] = row.plain - row.label;
      if (!weight) continue;
      T* const x = rows.x + r * part.cols;
      const T* const y = rows.y + r * part.cols;
      const T of_distance = weight[r] * row.inverse, of_nll = weight[part.rows + r],
              slope = parts[part.rows + r];
      for (std::int64_t c = 0; c < part.words(); ++c) {
        const auto word = row.word(x[c], y[c]);
        x[c] = of_distance * (word.slope - word.p * slope) + of_nll * std::exp(x[c] - row.plain);
      }
      const std::int64_t label = rows.labels[r] - part.first;
      if (label >= 0 && label < part.words()) x[label] -= of_nll;
      std::fill(x + part.words(), x + part.cols, T(0));
    }
  });
}

#define INSTANTIATE(T)                                       \
  template void distill_sums(T*, const DistillRows<T, T>&);  \
  template void distill_parts(T*, const DistillRows<T, T>&); \
  template void distill_gradient(T*, const T*, const T*, const DistillRows<T, T>&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
