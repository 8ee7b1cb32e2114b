// What routers make of a row of logits on the CPU (kernels/experts.h, kernels/router_losses.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/experts.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {

// The score that an expert of this logit has of its own, and the derivative of its logarithm.
template <class T>
T own_score(T z, RouterScores scores) {
  return scores == RouterScores::sqrt_softplus ? std::sqrt(softplus(z)) : sigmoid(z);
}
template <class T>
T own_slope(T z, RouterScores scores) {
  if (scores == RouterScores::sigmoid) return 1 - sigmoid(z);
  constexpr T kBothAreExponentials = -40;  // the same in double, and before a float is 0
  return z < kBothAreExponentials ? T(0.5) : sigmoid(z) / (2 * softplus(z));
}

// Makes logits their softmax, and returns the logarithm of the sum of their exponentials.
template <class T>
T softmax(std::vector<T>& z) {
  const T most = *std::ranges::max_element(z);
  T sum = 0;
  for (T& one : z) sum += one = std::exp(one - most);
  for (T& one : z) one /= sum;
  return most + std::log(sum);
}

}  // namespace mt::cpu
