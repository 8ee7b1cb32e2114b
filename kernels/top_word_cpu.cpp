#include "kernels/top_word.h"

#include <limits>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void top_words(T* tops, const T* logits, const VocabularyPart& part) {
  const std::int64_t words = part.words();
  for_blocks(part.rows, rows_per_block(part.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = logits + r * part.cols;
      T top = -std::numeric_limits<T>::infinity();
      std::int64_t column = 0;
      for (std::int64_t c = 0; c < words; ++c)
        if (row[c] > top) {
          top = row[c];
          column = c;
        }
      tops[r] = top;
      tops[part.rows + r] = static_cast<T>(part.first + column);
    }
  });
}

template <class T>
void top_word_hits(T* hit, const T* tops, const std::int32_t* labels, const VocabularyPart& part) {
  for (std::int64_t r = 0; r < part.rows; ++r) {
    T top = tops[r], column = tops[part.rows + r];
    for (int rank = 1; rank < part.ranks; ++rank) {
      const T* of_rank = tops + std::int64_t{rank} * 2 * part.rows;
      if (of_rank[r] > top) {
        top = of_rank[r];
        column = of_rank[part.rows + r];
      }
    }
    hit[r] = column == static_cast<T>(labels[r]) ? T(1) : T(0);
  }
}

#define INSTANTIATE(T)                                          \
  template void top_words(T*, const T*, const VocabularyPart&); \
  template void top_word_hits(T*, const T*, const std::int32_t*, const VocabularyPart&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
