#include "kernels/image_quality.h"

#include <algorithm>
#include <vector>

namespace mt::cpu {
namespace {

// One image, pixel by pixel, zeroes where nothing was to be painted.
template <class T>
void take_image(std::vector<T>& to, const T* patches, const T* painted, const PatchedImages& s) {
  const std::int64_t columns = s.width / s.patch;
  for (std::int64_t y = 0; y < s.height; ++y)
    for (std::int64_t x = 0; x < s.width; ++x) {
      const std::int64_t patch = y / s.patch * columns + x / s.patch;
      const std::int64_t pixel =
          patch * s.patch_width() + (y % s.patch * s.patch + x % s.patch) * 3;
      for (std::int64_t c = 0; c < 3; ++c)
        to[static_cast<std::size_t>((y * s.width + x) * 3 + c)] =
            painted[patch] != 0 ? patches[pixel + c] : T(0);
    }
}

// S of the window whose first pixel is u[0] and v[0].
template <class T>
T similarity(const T* u, const T* v, std::int64_t width, const SsimWeights& weights, T c1, T c2) {
  T u1 = 0, v1 = 0, uu = 0, vv = 0, uv = 0;
  for (std::int64_t y = 0; y < kSsimWindow; ++y)
    for (std::int64_t x = 0; x < kSsimWindow; ++x) {
      const T weight = static_cast<T>(weights.of[y] * weights.of[x]);
      const T a = u[(y * width + x) * 3], b = v[(y * width + x) * 3];
      u1 += weight * a;
      v1 += weight * b;
      uu += weight * a * a;
      vv += weight * b * b;
      uv += weight * a * b;
    }
  const T of_structure = 2 * (uv - u1 * v1) + c2, spread = uu - u1 * u1 + vv - v1 * v1 + c2;
  return (2 * u1 * v1 + c1) * of_structure / ((u1 * u1 + v1 * v1 + c1) * spread);
}

}  // namespace

template <class T>
void structural_similarity(T* similar, const T* x, const T* t, const T* painted,
                           const PatchedImages& s) {
  const SsimWeights weights;
  const std::int64_t pixels = s.height * s.width * 3;
  std::vector<T> u(static_cast<std::size_t>(pixels)), v(u.size());
  T *const least = similar + s.images, *const most = least + s.images;
  for (std::int64_t i = 0; i < s.images; ++i) {
    take_image(u, x + i * pixels, painted + i * s.patches(), s);
    const auto [low, high] = std::ranges::minmax_element(u);
    least[i] = *low;
    most[i] = *high;
  }
  const T range = (*std::max_element(most, most + s.images) > 128 ? T(255) : T(1)) +
                  (*std::min_element(least, least + s.images) < T(-0.5) ? T(1) : T(0));
  const T c1 = T(0.01) * range * (T(0.01) * range), c2 = T(0.03) * range * (T(0.03) * range);
  const std::int64_t rows = s.height - kSsimWindow + 1, columns = s.width - kSsimWindow + 1;
  for (std::int64_t i = 0; i < s.images; ++i) {
    take_image(u, x + i * pixels, painted + i * s.patches(), s);
    take_image(v, t + i * pixels, painted + i * s.patches(), s);
    T sum = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        for (std::int64_t c = 0; c < 3; ++c) {
          const std::int64_t first = (row * s.width + column) * 3 + c;
          sum += similarity(&u[static_cast<std::size_t>(first)],
                            &v[static_cast<std::size_t>(first)], s.width, weights, c1, c2);
        }
    similar[i] = sum / static_cast<T>(rows * columns * 3);
  }
}

void to_decibels(double* x) {
  if (*x != 0) *x = -10 * std::log10(*x);
}

#define INSTANTIATE(T) \
  template void structural_similarity(T*, const T*, const T*, const T*, const PatchedImages&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
