// kernels/elementwise.h: small operations on whole arrays.  T: float or double.
//   add          y = a + b                              y may be a or b;  [count]
//   scale        y = factor x                           y may be x;  [count]
//   column_sum   y[c] += sum_r x[r,c]                   rows in order;  x: [rows, cols]
//   sum_squares  returns sum x^2, in f64, over blocks of 4096 elements added in order
//   dot          returns sum a b, in f64, likewise
//   fill_normal  y[i] ~ N(mean, std): Box and Muller (1958) on philox({(first + i) / 2 as 64 bits,
//   0, 0}, key)
#pragma once

#include <cstdint>

#include "base/random.h"

namespace mt::cpu {
template <class T>
void add(T* y, const T* a, const T* b, std::int64_t count);
template <class T>
void scale(T* y, const T* x, double factor, std::int64_t count);
template <class T>
void column_sum(T* y, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
double sum_squares(const T* x, std::int64_t count);
template <class T>
double dot(const T* a, const T* b, std::int64_t count);
template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key);
}  // namespace mt::cpu
