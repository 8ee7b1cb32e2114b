// What routers make of a row of logits on the CPU (kernels/experts.h, kernels/router_losses.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace mt::cpu {

template <class T>
T logistic(T z) {
  return 1 / (1 + std::exp(-z));
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
