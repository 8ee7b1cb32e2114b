// kernels/sinkhorn.h: keys by which routers choose experts evenly, and what their inputs are varied
// by.
//   sinkhorn   keys[t, e] = a[t] exp(z[t, e]) b[e], where from b = 1 on, until b changes by 1e-4 at
//              most in the mean, or 1000 times,
//                a[t] = 1 / tokens / (sum_e b[e] exp(z[t, e]) + 1e-8)
//                b[e] = 1 / experts / (sum_t a[t] exp(z[t, e]) + 1e-8)
//              (Clark et al.: arXiv:2202.01169, appendix B.2.1; Megatron-Core's sinkhorn())
//   jitter     y[r, c] = (1 + eps u) x[r, c],  u uniform in (-1, 1)  (Fedus et al.:
//   arXiv:2101.03961,
//              section 2.4), of word c % 4 of philox({c / 4, position, 2, sample}, key), where
//              sample and position are a row's as in kernels/dropout.h.  y may be x.
// z, x, y: T; keys, work: the type of sums; work: [tokens + 2 experts].  T: float or double; on the
// GPU float, bf16 or fp16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/dropout.h"

namespace mt {
inline constexpr double kSinkhornTolerance = 1e-4, kLeastSinkhornSum = 1e-8;
inline constexpr int kMostSinkhornRounds = 1000;
// Jitter says from which sample and position on the rows are, and by its p how large eps is.
struct Jitter {
  Dropout places;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void sinkhorn(T* keys, T* work, const T* z, std::int64_t tokens, std::int64_t experts);
template <class T>
void jitter(T* y, const T* x, std::int64_t rows, std::int64_t cols, const Jitter& jitter);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void sinkhorn(float* keys, float* work, const T* z, std::int64_t tokens, std::int64_t experts,
              cudaStream_t stream);
template <class T>
void jitter(T* y, const T* x, std::int64_t rows, std::int64_t cols, const Jitter& jitter,
            cudaStream_t stream);
}  // namespace mt::cuda
