// kernels/elementwise.h: small operations on whole arrays.  T: float or double.
//   add          y = a + b                              y may be a or b;  [count]
//   scale        y = factor x                           y may be x;  [count]
//   clamp        y = min(max(x, -bound), bound), and backward dx = dy where x is within, else 0
//                                                       y may be x, dx may be dy;  [count]
//   column_sum   y[c] += sum_r x[r,c]                   rows in order;  x: [rows, cols]
//   sum_squares  returns sum x^2, in f64: blocks of 4096 elements in 16 lanes, then added in order
//   dot          returns sum a b, in f64, likewise
//
// On the GPU T is float, bf16 or fp16; column_sum adds in f32, to y of f32, or of bf16 if x is that
// or f32; the other sums are f64, over parts that depend on the size alone, and are written to the
// device.
//   add          y and a of a type, b of that or float, or of a narrower one if they are float
//   convert      y = x, rounded
//   fill         y = value
//   swap_axes    y[j,i] = x[i,j] for i < a, j < b, each of so many bytes
//   count_zeros  how many x are 0
//   all_finite   1 if no x is infinite or NaN, else 0
//   digest       the sum over i of mix(mix(i) + x[i]), modulo 2^64, where mix() is SplitMix64's
//                and x[i] are numbers of 16 bits: other bits have the same one by a chance of
//                2^-64
//   add_up       the sum of a few numbers, one after another
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void add(T* y, const T* a, const T* b, std::int64_t count);
template <class T>
void scale(T* y, const T* x, T factor, std::int64_t count);
template <class T>
void clamp_forward(T* y, const T* x, T bound, std::int64_t count);
template <class T>
void clamp_backward(T* dx, const T* dy, const T* x, T bound, std::int64_t count);
template <class T>
void column_sum(T* y, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
double sum_squares(const T* x, std::int64_t count);
template <class T>
double dot(const T* a, const T* b, std::int64_t count);
}  // namespace mt::cpu

namespace mt::cuda {
template <class S, class T>
void add(S* y, const S* a, const T* b, std::int64_t count, cudaStream_t stream);
template <class T>
void scale(T* y, const T* x, float factor, std::int64_t count, cudaStream_t stream);
template <class T>
void clamp_forward(T* y, const T* x, float bound, std::int64_t count, cudaStream_t stream);
template <class T>
void clamp_backward(T* dx, const T* dy, const T* x, float bound, std::int64_t count,
                    cudaStream_t stream);
void scale(float* y, const float* x, const double* factor, std::int64_t count,
           cudaStream_t stream);  // *factor on the device, the product in f64
template <class To, class From>
void convert(To* y, const From* x, std::int64_t count, cudaStream_t stream);
template <class T>
void fill(T* y, double value, std::int64_t count, cudaStream_t stream);
void swap_axes(void* y, const void* x, std::int64_t a, std::int64_t b, std::int64_t bytes,
               cudaStream_t stream);

std::size_t column_sum_work(std::int64_t rows, std::int64_t cols);
template <class T, class G>
void column_sum(G* y, const T* x, std::int64_t rows, std::int64_t cols, void* work,
                cudaStream_t stream);

std::size_t sum_work(std::int64_t count);  // of the four below
template <class T>
void sum_squares(double* sum, const T* x, std::int64_t count, void* work, cudaStream_t stream);
template <class T>
void count_zeros(double* zeros, const T* x, std::int64_t count, void* work, cudaStream_t stream);
template <class T>
void all_finite(std::int32_t* finite, const T* x, std::int64_t count, void* work,
                cudaStream_t stream);
void dot(double* sum, const float* a, const float* b, std::int64_t count, void* work,
         cudaStream_t stream);
void add_up(double* sum, const double* x, std::int64_t count, cudaStream_t stream);
void digest(std::uint64_t* digest, const std::uint16_t* x, std::int64_t count, cudaStream_t stream);
}  // namespace mt::cuda
