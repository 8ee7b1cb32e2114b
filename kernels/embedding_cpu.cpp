#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void embedding_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                       std::int64_t cols, bool accumulate) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const T* from = table + ids[r] * cols;
      T* to = y + r * cols;
      for (std::int64_t c = 0; c < cols; ++c) to[c] = (accumulate ? to[c] : 0) + from[c];
    }
  });
}

template <class T>
void embedding_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                        std::int64_t cols) {
  constexpr std::int64_t kColumns = 64;  // a task owns columns, so that rows are added in order
  for_blocks(cols, kColumns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* from = dy + r * cols;
      T* to = dtable + ids[r] * cols;
      for (std::int64_t c = first; c < last; ++c) to[c] += from[c];
    }
  });
}

template <class T>
void embedding_part_forward(T* y, const std::int32_t* ids, const T* table, std::int64_t rows,
                            std::int64_t cols, std::int64_t first, std::int64_t vocab) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = ids[r] - first;
      if (id >= 0 && id < vocab)
        std::copy_n(table + id * cols, cols, y + r * cols);
      else
        std::fill_n(y + r * cols, cols, T(0));
    }
  });
}

template <class T>
void embedding_part_backward(T* dtable, const std::int32_t* ids, const T* dy, std::int64_t rows,
                             std::int64_t cols, std::int64_t first, std::int64_t vocab) {
  constexpr std::int64_t kColumns = 64;  // as above
  for_blocks(cols, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t id = ids[r] - first;
      if (id < 0 || id >= vocab) continue;
      for (std::int64_t c = begin; c < end; ++c) dtable[id * cols + c] += dy[r * cols + c];
    }
  });
}

template void embedding_forward(float*, const std::int32_t*, const float*, std::int64_t,
                                std::int64_t, bool);
template void embedding_forward(double*, const std::int32_t*, const double*, std::int64_t,
                                std::int64_t, bool);
template void embedding_backward(float*, const std::int32_t*, const float*, std::int64_t,
                                 std::int64_t);
template void embedding_backward(double*, const std::int32_t*, const double*, std::int64_t,
                                 std::int64_t);
template void embedding_part_forward(float*, const std::int32_t*, const float*, std::int64_t,
                                     std::int64_t, std::int64_t, std::int64_t);
template void embedding_part_forward(double*, const std::int32_t*, const double*, std::int64_t,
                                     std::int64_t, std::int64_t, std::int64_t);
template void embedding_part_backward(float*, const std::int32_t*, const float*, std::int64_t,
                                      std::int64_t, std::int64_t, std::int64_t);
template void embedding_part_backward(double*, const std::int32_t*, const double*, std::int64_t,
                                      std::int64_t, std::int64_t, std::int64_t);

}  // namespace mt::cpu
