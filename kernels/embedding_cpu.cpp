#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, WordRange words, bool accumulate) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = ids[r] - words.first;
      T* to = y + r * cols;
      if (!accumulate) std::fill_n(to, cols, T(0));
      if (id < 0 || id >= words.vocab) continue;
      for (std::int64_t c = 0; c < cols; ++c) to[c] += table[id * cols + c];
    }
  });
}

template <class T>
void embedding_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols, WordRange words) {
  constexpr std::int64_t kColumns = 64;  // a task owns columns, so that rows are added in order
  for_blocks(cols, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t id = ids[r] - words.first;
      if (id < 0 || id >= words.vocab) continue;
      for (std::int64_t c = begin; c < end; ++c) dtable[id * cols + c] += dy[r * cols + c];
    }
  });
}

#define INSTANTIATE(T)                                                                            \
  template void embedding_forward(T*, const std::int32_t*, const T*, std::int64_t, std::int64_t,  \
                                  WordRange, bool);                                               \
  template void embedding_backward(T*, const std::int32_t*, const T*, std::int64_t, std::int64_t, \
                                   WordRange)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
