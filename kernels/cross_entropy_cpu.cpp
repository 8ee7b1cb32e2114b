#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/loops.h"
#include "kernels/softmax.h"

namespace mt::cpu {

template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t cols, std::int64_t vocab, double smoothing) {
  // target[c] = (1 - t) [c = label] + t / vocab
  const bool smooth = smoothing > 0 && vocab > 1;
  const T n = static_cast<T>(vocab);
  const T t = smooth ? static_cast<T>(smoothing) * n / (n - 1) : T(0);
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      T* row = logits + r * cols;
      const T top = row_max(row, vocab), label = row[labels[r]];
      const T mean = smooth ? sum<T>(vocab, [&](std::int64_t c) { return row[c]; }) / n : label;
      const T total = row_exp_sum(row_weight ? row : nullptr, row, top, vocab);
      loss[r] = std::log(total) + (top - label) + t * (label - mean);
      if (!row_weight) continue;
      const T factor = row_weight[r] / total;
      const T shared = row_weight[r] * t / n;  // 0 without smoothing
      for (std::int64_t c = 0; c < vocab; ++c) row[c] = row[c] * factor - shared;
      row[labels[r]] -= row_weight[r] * (1 - t);
      std::fill(row + vocab, row + cols, T(0));
    }
  });
}

template <class T>
void cross_entropy_sums(T* sums, const T* logits, const std::int32_t* labels,
                        const VocabularyPart& part) {
  const std::int64_t words = part.words();
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = logits + r * part.cols;
      const std::int64_t label = labels[r] - part.first;
      const T top = row_max(row, words);
      sums[r] = top;
      sums[part.rows + r] = row_exp_sum<T>(nullptr, row, top, words);
      sums[2 * part.rows + r] = label >= 0 && label < words ? row[label] : T(0);
      sums[3 * part.rows + r] = sum<T>(words, [&](std::int64_t c) { return row[c]; });
    }
  });
}

template <class T>
void cross_entropy_part(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                        const T* sums, const VocabularyPart& part, double smoothing) {
  const bool smooth = smoothing > 0 && part.vocab > 1;
  const std::int64_t words = part.words();
  const T n = static_cast<T>(part.vocab);
  const T t = smooth ? static_cast<T>(smoothing) * n / (n - 1) : T(0);
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto of_rank = [&](int rank, int which) {
        return sums[(std::int64_t{rank} * 4 + which) * part.rows + r];
      };
      T top = of_rank(0, 0), total = 0, label = 0, plain = 0;
      for (int rank = 1; rank < part.ranks; ++rank) top = std::max(top, of_rank(rank, 0));
      for (int rank = 0; rank < part.ranks; ++rank) {
        total += of_rank(rank, 1) * std::exp(of_rank(rank, 0) - top);
        label += of_rank(rank, 2);
        plain += of_rank(rank, 3);
      }
      const T mean = smooth ? plain / n : label;
      loss[r] = std::log(total) + (top - label) + t * (label - mean);
      if (!row_weight) continue;
      T* row = logits + r * part.cols;
      const T factor = row_weight[r] / total, shared = row_weight[r] * t / n;
      row_exp_sum(row, row, top, words);
      for (std::int64_t c = 0; c < words; ++c) row[c] = row[c] * factor - shared;
      const std::int64_t own = labels[r] - part.first;
      if (own >= 0 && own < words) row[own] -= row_weight[r] * (1 - t);
      std::fill(row + words, row + part.cols, T(0));
    }
  });
}

#define INSTANTIATE(T)                                                                           \
  template void cross_entropy(T*, T*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                              std::int64_t, double);                                             \
  template void cross_entropy_sums(T*, const T*, const std::int32_t*, const VocabularyPart&);    \
  template void cross_entropy_part(T*, T*, const std::int32_t*, const T*, const T*,              \
                                   const VocabularyPart&, double)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
