// kernels/image_quality.h: how near painted images are to what they should be.
//
// Structural similarity (Wang et al., IEEE Trans. Image Processing 13(4), 2004), of the parts that
// were to be painted: with u and v what was painted and the truth there, and zeroes elsewhere,
//   S = (2 E[u] E[v] + C1) (2 cov(u, v) + C2) / ((E[u]^2 + E[v]^2 + C1) (var(u) + var(v) + C2))
// where E is the mean over a window of 11 x 11 pixels of one colour, weighed by a Gaussian of
// standard deviation 1.5 about its middle, and C1 = (0.01 L)^2, C2 = (0.03 L)^2.  An image's is the
// mean of S over its colours and all windows that lie in it.  L = most - least, where most is 255
// if some u of any of the images is above 128, else 1; least is -1 if one is below -1/2, else 0.
//
// Images are patches, row by row, of pixels, row by row, whose colours follow each other
// (image/patches.h):  x, t: [images patches, patch patch 3];  painted: [images patches], 1 where a
// patch was to be painted, else 0;  similar: [3, images]: S, and the least and greatest u.
// T: float or double; on the GPU x is float, bf16 or fp16, all else float.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

inline constexpr std::int64_t kSsimWindow = 11;

struct PatchedImages {
  std::int64_t images = 0, height = 0, width = 0;  // pixels, at least a window
  std::int64_t patch = 0;                          // pixels of a side, which divide those

  constexpr std::int64_t patches() const { return (height / patch) * (width / patch); }
  constexpr std::int64_t patch_width() const { return patch * patch * 3; }
};

// The weights of a window's rows, and of its columns; their sum is 1.
struct SsimWeights {
  double of[kSsimWindow] = {};

  SsimWeights() {
    double sum = 0;
    for (std::int64_t i = 0; i < kSsimWindow; ++i) sum += weight(i);
    for (std::int64_t i = 0; i < kSsimWindow; ++i) of[i] = weight(i) / sum;
  }
  static double weight(std::int64_t i) {
    const auto from_middle = static_cast<double>(i - kSsimWindow / 2);
    return std::exp(-from_middle * from_middle / (2 * 1.5 * 1.5));
  }
};

}  // namespace mt

namespace mt::cpu {
template <class T>
void structural_similarity(T* similar, const T* x, const T* t, const T* painted,
                           const PatchedImages& shape);
// x = -10 log10(x), in decibels: the ratio of 1 to a mean square; 0 where there is none, x = 0.
void to_decibels(double* x);
}  // namespace mt::cpu

namespace mt::cuda {
template <class X>
void structural_similarity(float* similar, const X* x, const float* t, const float* painted,
                           const PatchedImages& shape, cudaStream_t stream);
void to_decibels(double* x, cudaStream_t stream);
}  // namespace mt::cuda
