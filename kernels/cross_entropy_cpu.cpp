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

template <class T>
void cross_entropy_top(T* top, const T* logits, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) top[r] = row_max(logits + r * cols, cols);
  });
}

template <class T>
void cross_entropy_sums(T* sums, T* logits, const std::int32_t* labels, const T* top,
                        const VocabularyPart& part) {
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* row = logits + r * part.cols;
      const std::int64_t label = labels[r] - part.first;
      sums[part.rows + r] = label >= 0 && label < part.cols ? row[label] - top[r] : T(0);
      sums[2 * part.rows + r] = sum<T>(part.cols, [&](std::int64_t c) { return row[c] - top[r]; });
      sums[r] = row_exp_sum(row, row, top[r], part.cols);
    }
  });
}

template <class T>
void cross_entropy_part(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                        const T* sums, const VocabularyPart& part, double smoothing) {
  const bool smooth = smoothing > 0 && part.vocab > 1;
  const T n = static_cast<T>(part.vocab);
  const T t = smooth ? static_cast<T>(smoothing) * n / (n - 1) : T(0);
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T total = sums[r], of_label = sums[part.rows + r];
      const T mean = smooth ? sums[2 * part.rows + r] / n : of_label;
      loss[r] = std::log(total) - of_label + t * (of_label - mean);
      if (!row_weight) continue;
      T* row = logits + r * part.cols;
      const T factor = row_weight[r] / total, shared = row_weight[r] * t / n;
      for (std::int64_t c = 0; c < part.cols; ++c) row[c] = row[c] * factor - shared;
      const std::int64_t label = labels[r] - part.first;
      if (label >= 0 && label < part.cols) row[label] -= row_weight[r] * (1 - t);
    }
  });
}

#define INSTANTIATE(T)                                                                            \
  template void cross_entropy_top(T*, const T*, std::int64_t, std::int64_t);                      \
  template void cross_entropy_sums(T*, T*, const std::int32_t*, const T*, const VocabularyPart&); \
  template void cross_entropy_part(T*, T*, const std::int32_t*, const T*, const T*,               \
                                   const VocabularyPart&, double)
INSTANTIATE(float);
INSTANTIATE(double);

template void cross_entropy(float*, float*, const std::int32_t*, const float*, std::int64_t,
                            std::int64_t, double);
template void cross_entropy(double*, double*, const std::int32_t*, const double*, std::int64_t,
                            std::int64_t, double);

}  // namespace mt::cpu
