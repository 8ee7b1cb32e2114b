#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class T>
void add_to(T* __restrict__ y, const T* __restrict__ x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

}  // namespace

template <class T>
void add(T* y, const T* a, const T* b, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = a[i] + b[i];
  });
}

template <class T>
void scale(T* y, const T* x, T factor, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = factor * x[i];
  });
}

template <class T>
void clamp_forward(T* y, const T* x, T bound, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = std::clamp(x[i], -bound, bound);
  });
}

template <class T>
void clamp_backward(T* dx, const T* dy, const T* x, T bound, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) dx[i] = std::abs(x[i]) <= bound ? dy[i] : T{0};
  });
}

template <class T>
void column_sum(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kColumns = 64;  // a task owns columns, so that rows are added in order
  for_blocks(cols, kColumns, [&](std::int64_t first, std::int64_t last) {
    T total[kColumns] = {};
    for (std::int64_t r = 0; r < rows; ++r) add_to(total, x + r * cols + first, last - first);
    add_to(y + first, total, last - first);
  });
}

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  constexpr std::int64_t kPart = 4096;
  std::vector<double> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  for_blocks(std::ssize(parts), kBlock / kPart, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const T *part_a = a + i * kPart, *part_b = b + i * kPart;
      parts[i] = sum<double>(std::min(kPart, count - i * kPart), [&](std::int64_t c) {
        return static_cast<double>(part_a[c]) * part_b[c];
      });
    }
  });
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

template <class T>
double sum_squares(const T* x, std::int64_t count) {
  return dot(x, x, count);
}

template void add(float*, const float*, const float*, std::int64_t);
template void add(double*, const double*, const double*, std::int64_t);
template void scale(float*, const float*, float, std::int64_t);
template void scale(double*, const double*, double, std::int64_t);
template void clamp_forward(float*, const float*, float, std::int64_t);
template void clamp_forward(double*, const double*, double, std::int64_t);
template void clamp_backward(float*, const float*, const float*, float, std::int64_t);
template void clamp_backward(double*, const double*, const double*, double, std::int64_t);
template void column_sum(float*, const float*, std::int64_t, std::int64_t);
template void column_sum(double*, const double*, std::int64_t, std::int64_t);
template double dot(const float*, const float*, std::int64_t);
template double dot(const double*, const double*, std::int64_t);
template double sum_squares(const float*, std::int64_t);
template double sum_squares(const double*, std::int64_t);

}  // namespace mt::cpu
