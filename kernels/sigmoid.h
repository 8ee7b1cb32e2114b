// kernels/sigmoid.h: two functions that several kernels of the CPU are made of.
#pragma once

#include <algorithm>
#include <cmath>

namespace mt::cpu {

// 1 / (1 + e^-x)
template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// ln(1 + e^x), without overflow
template <class T>
T softplus(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace mt::cpu
