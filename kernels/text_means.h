// kernels/text_means.h: means over the rows of each text.
//   mean[t,c] = sum_i x[first[t] + i, c] / count[t]     i: from 0 to count[t] - 1
// and 0 where count[t] is 0.  mean: [texts, cols];  x: [rows, cols] of T;  first, count: [texts]
// i32.  Sums are in f64.  T: float or double, which means are of, too; on the GPU float, bf16 or
// fp16, and means of float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct TextSpans {
  const std::int32_t *first = nullptr, *count = nullptr;
  std::int64_t texts = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void text_means(T* mean, const T* x, const TextSpans& spans, std::int64_t cols);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void text_means(float* mean, const T* x, const TextSpans& spans, std::int64_t cols,
                cudaStream_t stream);
}  // namespace mt::cuda
