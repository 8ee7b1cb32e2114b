// Matrix products of one warp on any GPU: 16 rows by N columns of sums in f32, T in shared memory.
// 16-bit T go to the matrix units, float to FMA, in the same order of results: lane i holds
// sums[4 j + x], row i / 4 + 8 (x / 2), column 8 j + 2 (i % 4) + x % 2.
#pragma once

#include "kernels/ptx.cuh"

namespace mt::cuda {

// Elements from one row of a tile in shared memory to the next: 16 bytes more than a row has, so
// that the same 16 bytes of eight rows are in different banks.
template <class T>
constexpr int row_stride(int columns) {
  return columns + 16 / static_cast<int>(sizeof(T));
}

__device__ inline int lane() { return threadIdx.x % 32; }

// sums += A B^T for the warp's 16 rows of A and N rows of B, kDepth columns each.
template <int kDepth, int N, class T>
__device__ void multiply_rows(float (&sums)[N / 2], const T* a, const T* b) {
  constexpr int kStride = row_stride<T>(kDepth);
  const T* const a_row = a + lane() % 16 * kStride + lane() / 16 * 8;
  const T* const b_row = b + (lane() / 16 * 8 + lane() % 8) * kStride + lane() / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    std::uint32_t left[4];
    load_matrices(left, a_row + k);
#pragma unroll
    for (int j = 0; j < N; j += 16) {
      std::uint32_t right[4];
      load_matrices(right, b_row + j * kStride + k);
      mma<T>(sums + j / 2, left, right[0], right[1]);
      mma<T>(sums + j / 2 + 4, left, right[2], right[3]);
    }
  }
}
template <int kDepth, int N>
__device__ void multiply_rows(float (&sums)[N / 2], const float* a, const float* b) {
  constexpr int kStride = row_stride<float>(kDepth);
  const float* const a_row = a + lane() / 4 * kStride;
  const float* const b_row = b + lane() % 4 * 2 * kStride;
  const auto at = [](const float* p) { return *reinterpret_cast<const float4*>(p); };
  const auto add = [](float sum, const float4& x, const float4& y) {
    return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
  };
#pragma unroll 2
  for (int k = 0; k < kDepth; k += 4) {
    const float4 x0 = at(a_row + k), x1 = at(a_row + 8 * kStride + k);
#pragma unroll
    for (int j = 0; j < N; j += 8) {
      const float4 y0 = at(b_row + j * kStride + k), y1 = at(b_row + (j + 1) * kStride + k);
      float* const s = sums + j / 2;
      s[0] = add(s[0], x0, y0);
      s[1] = add(s[1], x0, y1);
      s[2] = add(s[2], x1, y0);
      s[3] = add(s[3], x1, y1);
    }
  }
}

// Sums as the left factor of a product: rounded in registers, or, where T is float, laid down in
// `strip` in shared memory, which is the warp's own.
template <class T, int N>
struct Left {
  struct Strip {};
  std::uint32_t words[N / 16][4];
  __device__ Left(const float (&sums)[N / 2], Strip&) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i)
      words[i / 4][i % 4] = pack_pair<T>(sums[2 * i], sums[2 * i + 1]);
  }
};
template <int N>
struct Left<float, N> {
  struct alignas(16) Strip {
    float rows[16][row_stride<float>(N)];
  };
  const Strip& strip;
  __device__ Left(const float (&sums)[N / 2], Strip& to) : strip(to) {
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int i = 0; i < N / 4; ++i)
      store_pair(&to.rows[lane() / 4 + i % 2 * 8][i / 2 * 8 + lane() % 4 * 2], sums[2 * i],
                 sums[2 * i + 1]);
    __syncwarp();
  }
};

// sums += left B for kColumns columns of B, whose N rows are kStride apart.
template <int kStride, int kColumns, int N, class T>
__device__ void multiply(float (&sums)[kColumns / 2], const Left<T, N>& left, const T* b) {
  const T* const b_row = b + lane() % 16 * kStride + lane() / 16 * 8;
#pragma unroll
  for (int k = 0; k < N; k += 16)
#pragma unroll
    for (int j = 0; j < kColumns; j += 16) {
      std::uint32_t right[4];
      load_transposed(right, b_row + k * kStride + j);
      mma<T>(sums + j / 2, left.words[k / 16], right[0], right[1]);
      mma<T>(sums + j / 2 + 4, left.words[k / 16], right[2], right[3]);
    }
}
template <int kStride, int kColumns, int N>
__device__ void multiply(float (&sums)[kColumns / 2], const Left<float, N>& left, const float* b) {
  const float* const b_row = b + lane() % 4 * 2;
#pragma unroll 2
  for (int k = 0; k < N; ++k) {
    const float x0 = left.strip.rows[lane() / 4][k], x1 = left.strip.rows[lane() / 4 + 8][k];
#pragma unroll
    for (int j = 0; j < kColumns; j += 8) {
      const float2 y = *reinterpret_cast<const float2*>(b_row + k * kStride + j);
      float* const s = sums + j / 2;
      s[0] = fmaf(x0, y.x, s[0]);
      s[1] = fmaf(x0, y.y, s[1]);
      s[2] = fmaf(x1, y.x, s[2]);
      s[3] = fmaf(x1, y.y, s[3]);
    }
  }
}

}  // namespace mt::cuda
