// kernels/simd.h: the activations for blocks of floats, on vectors and on the calling thread.
//
// How CPU kernels are written:
//   x_cpu.cpp   the specification: plain loops over fixed blocks (loops.h), for float and double.
//               The compiler makes them vectors for each instruction set (isa.h).
//   x_simd.cpp  where exp or a horizontal sum binds a plain loop (activations, attention): the same
//               formula for float on vectors of 16 (vector_math.h), called by the float
//               instantiation of cpu::x.  double keeps to the plain loop, and is the reference of
//               the tests.
// Matrix products are OpenBLAS's (block_product.h); its bits may differ between machines, all other
// bits do not.  Shapes are those of activation.h.
#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace mt::cpu::simd {

void gelu_forward(float* y, const float* x, std::int64_t count, GeluForm form);
void gelu_backward(float* dx, const float* dy, const float* x, std::int64_t count, GeluForm form);
void swiglu_forward(float* y, const float* x, std::int64_t rows, std::int64_t cols);
void swiglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows,
                     std::int64_t cols);
void geglu_forward(float* y, const float* x, std::int64_t rows, std::int64_t cols);
void geglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows,
                    std::int64_t cols);

// y = exp(x), y = (1 + erf(x / sqrt 2)) / 2; y may be x.
void exp(float* y, const float* x, std::int64_t count);
void normal_cdf(float* y, const float* x, std::int64_t count);

}  // namespace mt::cpu::simd
