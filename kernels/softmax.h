// kernels/softmax.h: what cross-entropy and attention do to one row, inlined into bodies that
// isa.h's run() compiles.
//   row_max      returns max_c x[c], -inf for an empty row
//   row_exp_sum  y[c] = exp(x[c] - shift), returns sum_c y[c];  y may be x, or null to store
//   nothing
// The templates are the specification; the specialisations for float do the same on vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/vector_math.h"

namespace mt::cpu {

template <class T>
T row_max(const T* x, std::int64_t count) {
  T top = -std::numeric_limits<T>::infinity();
  for (std::int64_t c = 0; c < count; ++c) top = std::max(top, x[c]);
  return top;
}

template <class T>
T row_exp_sum(T* y, const T* x, T shift, std::int64_t count) {
  return sum<T>(count, [&](std::int64_t c) {
    const T e = std::exp(x[c] - shift);
    if (y) y[c] = e;
    return e;
  });
}

template <>
[[gnu::always_inline]] inline float row_max(const float* x, std::int64_t count) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  simd::Floats top = simd::Floats{} + kLowest;
  for (std::int64_t c = 0; c < count; c += kLanes) {
    const simd::Floats v = simd::load(x + c, std::min<std::int64_t>(kLanes, count - c), kLowest);
    top = v > top ? v : top;
  }
  float lane[kLanes];
  simd::store(lane, top);
  return *std::max_element(lane, lane + kLanes);
}

template <>
[[gnu::always_inline]] inline float row_exp_sum(float* y, const float* x, float shift,
                                                std::int64_t count) {
  simd::Floats total = {};
  for (std::int64_t c = 0; c < count; c += kLanes) {
    const std::int64_t lanes = std::min<std::int64_t>(kLanes, count - c);
    const simd::Floats v =
        simd::exp(simd::load(x + c, lanes, -std::numeric_limits<float>::infinity()) - shift);
    if (y) simd::store(y + c, v, lanes);
    total += v;
  }
  return simd::sum_of_lanes(total);
}

}  // namespace mt::cpu
