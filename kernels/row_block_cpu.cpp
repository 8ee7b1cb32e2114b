#include "kernels/loops.h"
#include "kernels/row_block.h"

namespace mt::cpu {

template <class T>
void spread(T* wide, std::int64_t wide_cols, const T* narrow, std::int64_t rows, std::int64_t cols,
            const RowBlock& block, T factor) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* const to = wide + block.place(row * cols, cols, wide_cols);
      for (std::int64_t c = 0; c < cols; ++c) to[c] = factor * narrow[row * cols + c];
    }
  });
}

template <class T>
void collect(T* narrow, std::int64_t rows, std::int64_t cols, const T* wide, std::int64_t wide_cols,
             const RowBlock& block, T factor) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const from = wide + block.place(row * cols, cols, wide_cols);
      for (std::int64_t c = 0; c < cols; ++c) narrow[row * cols + c] += factor * from[c];
    }
  });
}

#define INSTANTIATE(T)                                                                          \
  template void spread(T*, std::int64_t, const T*, std::int64_t, std::int64_t, const RowBlock&, \
                       T);                                                                      \
  template void collect(T*, std::int64_t, std::int64_t, const T*, std::int64_t, const RowBlock&, T)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
