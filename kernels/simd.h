// kernels/simd.h: float variants of the kernels that std::exp would bind, on the calling thread.
//
// How CPU kernels are written:
//   x_cpu.cpp   the specification: plain loops over fixed blocks, for float and double.  The
//               compiler makes them vectors for each instruction set (isa.h).
//   x_simd.cpp  where a transcendental function binds: the same formula for blocks of floats on
//               vectors of 16 (vector_math.h), called by the float instantiation of cpu::x.  double
//               keeps to the plain loop, and is the reference of the tests.
// Shapes are those of activation.h.
#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace mt::cpu::simd {

void gelu_forward(float* y, const float* x, std::int64_t count, GeluForm form);
void gelu_backward(float* dx, const float* dy, const float* x, std::int64_t count, GeluForm form);
void swiglu_forward(float* y, const float* x, std::int64_t rows, std::int64_t cols);
void swiglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows,
                     std::int64_t cols);

// y = exp(x), y = erf(x); y may be x.
void exp(float* y, const float* x, std::int64_t count);
void erf(float* y, const float* x, std::int64_t count);

}  // namespace mt::cpu::simd
