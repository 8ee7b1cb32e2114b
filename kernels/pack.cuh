// kernels/pack.cuh: how memory-bound kernels reach memory: N elements of float, bf16 or fp16 at a
// time, as they lie there, read as f32.  Where N is more than 1 the accesses are of 16 bytes (8, 4
// for fewer), and the address a multiple of that; N = 1 goes everywhere.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace mt::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

template <class T>
__device__ float to_float(T x) {
  return static_cast<float>(x);
}

template <class T, int N>
struct Pack {
  static constexpr int kWords = N * int(sizeof(T)) / 4;
  std::uint32_t word[kWords];

  // i is a constant once loops are unrolled.
  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(word[i]);
    } else {
      const std::uint32_t two = word[i / 2];
      if constexpr (std::is_same_v<T, bf16>)
        return __uint_as_float(i % 2 ? two & 0xffff0000u : two << 16);
      else
        return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> (i % 2 * 16))));
    }
  }
  // Elements i and i + 1, or for float element i alone, as a word.
  __device__ static std::uint32_t rounded(const float* x) {
    if constexpr (std::is_same_v<T, float>) {
      return __float_as_uint(*x);
    } else if constexpr (std::is_same_v<T, bf16>) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(x[0], x[1]);
      return __bfloat16_as_ushort(two.x) | static_cast<std::uint32_t>(__bfloat16_as_ushort(two.y))
                                               << 16;
    } else {
      const __half2 two = __floats2half2_rn(x[0], x[1]);
      return __half_as_ushort(__low2half(two)) |
             static_cast<std::uint32_t>(__half_as_ushort(__high2half(two))) << 16;
    }
  }
  __device__ static Pack of(const float (&x)[N]) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < kWords; ++i) pack.word[i] = rounded(x + i * (N / kWords));
    return pack;
  }
};

template <class T>
struct Pack<T, 1> {
  T value;
  __device__ float operator[](int) const { return to_float(value); }
  __device__ static Pack of(const float (&x)[1]) { return {static_cast<T>(x[0])}; }
};

// What follows unpacks them anew: all their elements at a time would fill the registers.
template <class T, int N, int kPacks>
__device__ void keep_packed(Pack<T, N> (&packs)[kPacks]) {
#pragma unroll
  for (auto& pack : packs)
#pragma unroll
    for (std::uint32_t& word : pack.word) asm volatile("" : "+r"(word));
}

// kWords of 4 bytes, 16 bytes at a time.
template <int kWords>
__device__ void copy_words(std::uint32_t* to, const std::uint32_t* from) {
  constexpr int kStep = kWords % 4 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
  using Step = std::conditional_t<kStep == 4, uint4, std::conditional_t<kStep == 2, uint2, uint1>>;
#pragma unroll
  for (int i = 0; i < kWords; i += kStep)
    *reinterpret_cast<Step*>(to + i) = *reinterpret_cast<const Step*>(from + i);
}

template <int N, class T>
__device__ Pack<T, N> load(const T* from) {
  if constexpr (N == 1) {
    return {*from};
  } else {
    alignas(16) Pack<T, N> pack;
    copy_words<Pack<T, N>::kWords>(pack.word, reinterpret_cast<const std::uint32_t*>(from));
    return pack;
  }
}
template <int N, class T>
__device__ void store(T* to, const Pack<T, N>& pack) {
  if constexpr (N == 1) {
    *to = pack.value;
  } else {
    alignas(16) const Pack<T, N> aligned = pack;
    copy_words<Pack<T, N>::kWords>(reinterpret_cast<std::uint32_t*>(to), aligned.word);
  }
}
template <int N, class T>
__device__ void store(T* to, const float (&x)[N]) {
  store(to, Pack<T, N>::of(x));
}

// Elements of the narrower of two types that fill 16 bytes.
template <class T, class U = T>
inline constexpr int kWide = 16 / int(sizeof(T) < sizeof(U) ? sizeof(T) : sizeof(U));

// Whether all pointers (null ones count as aligned) let packs be read.
template <class... P>
bool aligned(const P*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) % 16 == 0) && ...);
}

// body.operator()<N>() with N packs if `wide`, else with 1.
template <int N, class Body>
void with_width(bool wide, const Body& body) {
  if (wide)
    body.template operator()<N>();
  else
    body.template operator()<1>();
}

inline constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace mt::cuda
