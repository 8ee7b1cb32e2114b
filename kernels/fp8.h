// kernels/fp8.h: matrices of eight bits a number with one scale, and their products (Micikevicius
// et al.: arXiv:2209.05433; scales as Transformer Engine 2.x has them).
//   a = max |x|      s = largest / a, in f32; 1 where a is 0, infinite or NaN, and the largest
//                        finite number where that is infinite
//   q = the code nearest to x s, ties to even, the largest where it is beyond    x ~ q / s
// E4M3's largest number is 448, E5M2's 57344.  What is multiplied by is the inverse, 1 / s in f32.
//
// A delayed scale comes from the largest numbers of steps before, of which it remembers some:
//   a = the newest, or the largest      s = largest / a / 2^margin, where the above does not say 1,
//                                           and there s stays what it was
// Scales of a matrix's blocks: fp8_blocks.h.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda_types.h"
#include "kernels/fp8_format.h"

namespace mt {

constexpr float fp8_largest(Fp8Format format) {
  return format == Fp8Format::e4m3 ? 448.0F : 57344.0F;
}

// The scale of numbers of which the largest is amax.
constexpr float fp8_scale_of(float amax, Fp8Format format) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(amax > 0 && amax <= kMost)) return 1;
  const float scale = fp8_largest(format) / amax;
  return scale <= kMost ? scale : kMost;
}

constexpr float fp8_delayed_scale(float before, float amax, float margin, Fp8Format format) {
  if (!(amax > 0 && amax <= std::numeric_limits<float>::max())) return before;
  const float scale = fp8_largest(format) / amax * margin;
  return scale <= std::numeric_limits<float>::max() ? scale : std::numeric_limits<float>::max();
}

// So many scales, and the histories of a step's largest numbers, the newest first: [count, length].
struct Fp8Delayed {
  float* scale = nullptr;                     // [count]
  float* inverse = nullptr;                   // [count, kFp8InverseStride]; in the first column
  float *history = nullptr, *amax = nullptr;  // amax, [count]: the step's, and 0 afterwards
  std::int64_t count = 0, length = 0;
  bool most_recent = false;
  float margin = 1;  // 2^-margin
  Fp8Format format = Fp8Format::e4m3;
};

// The sides of what is multiplied on GPUs are multiples of this.
inline constexpr std::int64_t kFp8Multiple = 16;

// c = a b^T a_inverse b_inverse + (accumulate ? c : 0) + bias, where a and b stand for their codes'
// numbers.  a: [m, k];  b: [n, k];  c: [m, n];  bias: [n] or null.
template <class C>
struct Fp8Gemm {
  C* c = nullptr;
  const std::uint8_t *a = nullptr, *b = nullptr;
  Fp8Format a_format = Fp8Format::e4m3, b_format = Fp8Format::e4m3;
  const float *a_inverse = nullptr, *b_inverse = nullptr;  // [1]; on a GPU, there
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;
  const C* bias = nullptr;
  // On Hopper, whose tensor cores keep about 14 bits of a sum of eight-bit products, their sums
  // are not added up in f32 in between.
  bool fast = false;
};

}  // namespace mt

// T: float or double.
namespace mt::cpu {
void fp8_update(const Fp8Delayed& scales);
template <class T>
float fp8_amax(const T* x, std::int64_t count);  // rounded to f32; NaN if an x is
// x: [rows, cols];  codes, as x, and transposed, [cols, rows]: each may be null.
template <class T>
void fp8_cast(std::uint8_t* codes, std::uint8_t* transposed, const T* x, float scale,
              std::int64_t rows, std::int64_t cols, Fp8Format format);
// Sums in T.
template <class T>
void fp8_gemm(const Fp8Gemm<T>& problem);
}  // namespace mt::cpu

// T: float, bf16 or fp16.  Products are GemmLibrary's (kernels/gemm.h).
namespace mt::cuda {
void fp8_update(const Fp8Delayed& scales, cudaStream_t stream);
template <class T>
void fp8_amax(float* amax, const T* x, std::int64_t count, cudaStream_t stream);  // amax: [1]
// scale, inverse, amax: [1].
void fp8_scale(float* scale, float* inverse, const float* amax, Fp8Format format,
               cudaStream_t stream);
// scale: [1].  cols is a multiple of kFp8Multiple, and so are rows where there is a transpose; all
// addresses of 16.  amax, [1] or null, becomes that of x and what is there.
template <class T>
void fp8_cast(std::uint8_t* codes, std::uint8_t* transposed, float* amax, const T* x,
              const float* scale, std::int64_t rows, std::int64_t cols, Fp8Format format,
              cudaStream_t stream);
}  // namespace mt::cuda
