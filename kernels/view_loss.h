// kernels/view_loss.h: DINO's loss (Caron et al.: arXiv:2104.14294, eq. 3): what a student says of
// a view of an image is to be what a teacher says of other views of it, two that show most of it.
//   p[q]    = softmax((t[q] - center) sharpness[q])
//   loss[r] = 1 / (2 (others + 1)) sum over those q of r's image that are not its view
//             of -sum_k p[q,k] log softmax(s[r] / 0.1)[k]
// s: [rows, cols], the gradient of row_weight[r] loss[r] goes over it;  t: [2 images, cols], p goes
// over it;  center: [cols];  sharpness: [2 images];  loss, row_weight: [rows].  Row 2 i + q is of
// view q of image i in s and t; behind those of all images follow, in s, its others, as many as
// each image has.  T: float or double; on the GPU s and t are float, bf16 or fp16, all else float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
// Views: how many rows there are, of which images.
struct Views {
  std::int64_t images = 0, others = 0;  // others: of each
  std::int64_t cols = 0;

  std::int64_t rows() const { return images * (2 + others); }
  constexpr std::int64_t image_of(std::int64_t row) const {
    return row < 2 * images ? row / 2 : (row - 2 * images) / others;
  }
};
// What the student's numbers are divided by.
inline constexpr float kStudentTemperature = 0.1F;
}  // namespace mt

namespace mt::cpu {
template <class T>
void view_loss(T* loss, T* s, T* t, const T* center, const T* sharpness, const T* row_weight,
               const Views& views);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void view_loss(float* loss, T* s, T* t, const float* center, const float* sharpness,
               const float* row_weight, const Views& views, cudaStream_t stream);
}  // namespace mt::cuda
