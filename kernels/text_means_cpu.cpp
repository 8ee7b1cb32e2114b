#include "kernels/text_means.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void text_means(T* mean, const T* x, const TextSpans& spans, std::int64_t cols) {
  constexpr std::int64_t kColumns = 64;  // of a task
  const std::int64_t slices = (cols + kColumns - 1) / kColumns;
  for_blocks(spans.texts * slices, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t text = task / slices, begin = task % slices * kColumns,
                       some = std::min(kColumns, cols - begin), rows = spans.count[text];
    const T* row = x + spans.first[text] * cols + begin;
    double sum[kColumns] = {};
    for (std::int64_t i = 0; i < rows; ++i, row += cols)
      for (std::int64_t c = 0; c < some; ++c) sum[c] += static_cast<double>(row[c]);
    for (std::int64_t c = 0; c < some; ++c)
      mean[text * cols + begin + c] =
          rows == 0 ? T(0) : static_cast<T>(sum[c] / static_cast<double>(rows));
  });
}

#define INSTANTIATE(T) template void text_means(T*, const T*, const TextSpans&, std::int64_t)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
