// What routers make of a row of logits on the GPU (kernels/experts.h, kernels/router_losses.h).
#pragma once

#include <cmath>

#include "kernels/experts.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {

__device__ inline float logistic(float z) { return 1 / (1 + expf(-z)); }
__device__ inline float softplus(float z) { return fmaxf(z, 0) + log1pf(expf(-fabsf(z))); }

// The score that an expert of this logit has of its own, and the derivative of its logarithm.
__device__ inline float own_score(float z, RouterScores scores) {
  return scores == RouterScores::sqrt_softplus ? sqrtf(softplus(z)) : logistic(z);
}
__device__ inline float own_slope(float z, RouterScores scores) {
  if (scores == RouterScores::sigmoid) return 1 - logistic(z);
  constexpr float kBothAreExponentials = -40;  // the same in a float, and before it is 0
  return z < kBothAreExponentials ? 0.5f : logistic(z) / (2 * softplus(z));
}

// RowSoftmax: the softmax of a row, which a warp has.  z(e): what the logit of an expert counts as.
template <class Logits>
class RowSoftmax {
 public:
  __device__ RowSoftmax(const Logits& z, std::int64_t experts) : z_(z) {
    for (std::int64_t e = threadIdx.x % 32; e < experts; e += 32) most_ = fmaxf(most_, z(e));
    most_ = over_lanes(most_, 32, [](float a, float b) { return fmaxf(a, b); });
    for (std::int64_t e = threadIdx.x % 32; e < experts; e += 32) sum_ += expf(z(e) - most_);
    sum_ = over_lanes(sum_);
  }
  __device__ float operator()(std::int64_t e) const { return expf(z_(e) - most_) / sum_; }
  __device__ float log_sum() const { return most_ + logf(sum_); }

 private:
  Logits z_;
  float most_ = -INFINITY, sum_ = 0;
};

// A key and the number of what has it; none has number -1.
struct Candidate {
  float key;
  std::int32_t number;
};

// The order of choice: larger keys first, of equal ones smaller numbers.
__device__ inline bool comes_first(const Candidate& a, const Candidate& b) {
  return a.key > b.key || (a.key == b.key && a.number < b.number);
}

__device__ inline Candidate first_of_lanes(Candidate best) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other{__shfl_xor_sync(0xffffffff, best.key, distance),
                          __shfl_xor_sync(0xffffffff, best.number, distance)};
    if (best.number < 0 || (other.number >= 0 && comes_first(other, best))) best = other;
  }
  return best;
}

// What comes first in [begin, end) of those that come behind `last`, or, if that has no number, of
// all.  Every lane gets it.
template <class Key>
__device__ Candidate next_best(std::int64_t begin, std::int64_t end, const Candidate& last,
                               const Key& key) {
  Candidate best{0, -1};
  for (std::int64_t e = begin + threadIdx.x % 32; e < end; e += 32) {
    const float of_one = key(e);
    const Candidate one{isnan(of_one) ? -INFINITY : of_one, static_cast<std::int32_t>(e)};
    if (last.number >= 0 && !comes_first(last, one)) continue;
    if (best.number < 0 || comes_first(one, best)) best = one;
  }
  return first_of_lanes(best);
}

}  // namespace mt::cuda
