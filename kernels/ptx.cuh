// What kernels for every GPU say in PTX: asynchronous copies into shared memory, fragments of 8 x 8
// matrices and the products of a warp's matrix units (PTX ISA 7.0).  On Turing, which has neither
// the copies nor products of bf16, the copies are loads and stores, and such a product stops the
// kernel: nothing asks for it there.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace mt::cuda {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes, both places aligned to 16; they are there after commit and wait of the same thread.
__device__ inline void copy_16_bytes(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
#else
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#endif
}
// ... or, where `there` is not, 16 bytes of zeros, and nothing is read.
__device__ inline void copy_16_bytes_or_zeros(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(to) = there ? *static_cast<const uint4*>(from) : uint4{};
#endif
}
__device__ inline void copies_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until at most kPending commits are on their way.
template <int kPending = 0>
__device__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Into the L2: a hint.  At a multiple of 16 bytes, as many.
__device__ inline void fetch_to_l2([[maybe_unused]] const void* from, [[maybe_unused]] int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// Four 8 x 8 matrices of 16-bit numbers; lane i passes the address of row i % 8 of matrix i / 8,
// and gets of each matrix elements 2 (i % 4) and the next of row i / 4.
__device__ inline void load_matrices(std::uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row))
               : "memory");
}
// ... of their transposes.
__device__ inline void load_transposed(std::uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row))
               : "memory");
}

// d[16, 8] += a[16, 16] b[16, 8] in f32.
template <class T>
__device__ void mma(float* d, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <>
__device__ inline void mma<__nv_bfloat16>(float* d, const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}
template <>
__device__ inline void mma<__half>(float* d, const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else  // the first 8 columns of a, and the others
  for (int half = 0; half < 2; ++half)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(half == 0 ? b0 : b1));
#endif
}

// Two 16-bit numbers in a word.
template <class T>
__device__ std::uint32_t pack_pair(float low, float high);
template <>
__device__ inline std::uint32_t pack_pair<__nv_bfloat16>(float low, float high) {
  std::uint32_t word = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::memcpy(&word, &pair, sizeof word);
#endif
  return word;
}
template <>
__device__ inline std::uint32_t pack_pair<__half>(float low, float high) {
  std::uint32_t word = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
  const __half2 pair = __floats2half2_rn(low, high);
  std::memcpy(&word, &pair, sizeof word);
#endif
  return word;
}
// Two numbers next to one another in memory, aligned to both.
template <class T>
__device__ void store_pair(T* to, float x, float y) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_pair<T>(x, y);
}
__device__ inline void store_pair(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = make_float2(x, y);
}

}  // namespace mt::cuda
