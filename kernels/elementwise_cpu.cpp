#include "kernels/elementwise.h"

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

template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key) {
  const std::int64_t pairs = count > 0 ? (first + count - 1) / 2 - first / 2 + 1 : 0;
  for_blocks(pairs, kBlock / 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const auto pair = static_cast<std::uint64_t>(first / 2 + n);
      const Counter words = philox(
          {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), 0, 0}, key);
      const double radius = std * std::sqrt(-2 * std::log(to_unit(words[0])));
      const double angle = 2 * std::numbers::pi * to_unit(words[1]);
      const std::int64_t i = 2 * (first / 2 + n) - first;  // of the even one; the ends may lack one
      if (i >= 0) y[i] = static_cast<T>(mean + radius * std::cos(angle));
      if (i + 1 < count) y[i + 1] = static_cast<T>(mean + radius * std::sin(angle));
    }
  });
}

template <class T>
void fill_uniform(T* y, std::int64_t first, std::int64_t count, double bound, RandomKey key) {
  const std::int64_t fours = count > 0 ? (first + count - 1) / 4 - first / 4 + 1 : 0;
  for_blocks(fours, kBlock / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = first / 4 + begin; n < first / 4 + end; ++n) {
      const auto four = static_cast<std::uint64_t>(n);
      const Counter words = philox(
          {static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32), 0, 0}, key);
      for (std::int64_t i = std::max(first, 4 * n); i < std::min(first + count, 4 * n + 4); ++i)
        y[i - first] = static_cast<T>(bound * (2 * to_unit(words[i % 4]) - 1));
    }
  });
}

template void add(float*, const float*, const float*, std::int64_t);
template void add(double*, const double*, const double*, std::int64_t);
template void scale(float*, const float*, float, std::int64_t);
template void scale(double*, const double*, double, std::int64_t);
template void column_sum(float*, const float*, std::int64_t, std::int64_t);
template void column_sum(double*, const double*, std::int64_t, std::int64_t);
template double dot(const float*, const float*, std::int64_t);
template double dot(const double*, const double*, std::int64_t);
template double sum_squares(const float*, std::int64_t);
template double sum_squares(const double*, std::int64_t);
template void fill_normal(float*, std::int64_t, std::int64_t, double, double, RandomKey);
template void fill_normal(double*, std::int64_t, std::int64_t, double, double, RandomKey);
template void fill_uniform(float*, std::int64_t, std::int64_t, double, RandomKey);
template void fill_uniform(double*, std::int64_t, std::int64_t, double, RandomKey);

}  // namespace mt::cpu
