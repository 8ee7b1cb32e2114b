// What routers make of a row of logits on the GPU (kernels/experts.h, kernels/router_losses.h).
#pragma once

#include <cmath>

#include "kernels/reduce.cuh"

namespace mt::cuda {

__device__ inline float logistic(float z) { return 1 / (1 + expf(-z)); }

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

}  // namespace mt::cuda
