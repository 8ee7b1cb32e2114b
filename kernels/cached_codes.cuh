// kernels/cached_codes.cuh: numbers of E4M3 four at a time, as kernels/cached_codes.h has them.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/pack.cuh"

namespace mt::cuda {

__device__ inline std::uint32_t codes_of(const float (&x)[4], float scale) {
  const float2 low{__fdiv_rn(x[0], scale), __fdiv_rn(x[1], scale)},
      high{__fdiv_rn(x[2], scale), __fdiv_rn(x[3], scale)};
  return __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3) |
         static_cast<std::uint32_t>(__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3))
             << 16;
}

// to[i] = T(code i's number scale)
template <class T>
__device__ void numbers_of(T* to, std::uint32_t codes, float scale) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const __half2 two(
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes >> 8 * i), __NV_E4M3));
    const float2 x = __half22float2(two);
    to[i] = static_cast<T>(x.x * scale);
    to[i + 1] = static_cast<T>(x.y * scale);
  }
}

}  // namespace mt::cuda
