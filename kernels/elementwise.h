// kernels/elementwise.h: small operations on whole arrays.  T: float or double.
//   add          y = a + b                              y may be a or b;  [count]
//   scale        y = factor x                           y may be x;  [count]
//   column_sum   y[c] += sum_r x[r,c]                   rows in order;  x: [rows, cols]
//   sum_squares  returns sum x^2, in f64: blocks of 4096 elements in 16 lanes, then added in order
//   dot          returns sum a b, in f64, likewise
//   fill_normal  y[i] ~ N(mean, std), in f64: Box and Muller (1958).  Pair n = (first + i) / 2 has
//                words 0 and 1 of philox({n as 64 bits, 0, 0}, key) as uniform u and v: an even
//                first + i gets sqrt(-2 log u) cos(2 pi v), an odd one the same with sin.
//   fill_uniform y[i] ~ U(-bound, bound), in f64: word i % 4 of philox({i / 4 as 64 bits, 0, 0},
//   key)
#pragma once

#include <cstdint>

#include "base/random.h"

namespace mt::cpu {
template <class T>
void add(T* y, const T* a, const T* b, std::int64_t count);
template <class T>
void scale(T* y, const T* x, T factor, std::int64_t count);
template <class T>
void column_sum(T* y, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
double sum_squares(const T* x, std::int64_t count);
template <class T>
double dot(const T* a, const T* b, std::int64_t count);
template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key);
template <class T>
void fill_uniform(T* y, std::int64_t count, double bound, RandomKey key);
}  // namespace mt::cpu
