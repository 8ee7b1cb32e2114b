// kernels/packed_rows_held.cuh: the rows of x in shared memory, normalised and in fp16, for
// packed_few_rows.cuh.
#pragma once

#include "kernels/few_rows_held.cuh"

namespace mt::cuda::few {

// How many rows are multiplied at a time: columns of a product of the matrix units.
inline constexpr int kRowsTogether = 8;
inline constexpr int kTotals = 16;  // halves of a piece's totals

struct alignas(16) PackedShared {
  float part[2][kWarps][32][4];          // sums of the warps, by turns
  float sums[2][kRowsTogether][kWarps];  // of the norm: of elements, of squares
  float largest[kRowsTogether][kWarps];
  float mean[kRowsTogether], rstd[kRowsTogether], scale[kRowsTogether];
};

// A row is normalised by mean and rstd, and multiplied with a power of two then, so that its
// largest number is about 2^9 and more.
struct RowMeasure {
  float mean = 0, rstd = 1, scale = 1;

  template <class T, class C, class Memory>
  __device__ static RowMeasure of(const Arguments<T, C>& p, const Memory& shared, int row) {
    RowMeasure of = normal_of(p, shared, row);
    float most = 0;
#pragma unroll
    for (const float part : shared.largest[row]) most = fmaxf(most, part);
    if (!p.norm.centred) most *= of.rstd;
    const int exponent = static_cast<int>(__float_as_uint(most) >> 23);
    of.scale = __uint_as_float(static_cast<unsigned>(min(263 - exponent, 253)) << 23);
    return of;
  }
  // Without the scale.
  template <class T, class C, class Memory>
  __device__ static RowMeasure normal_of(const Arguments<T, C>& p, const Memory& shared, int row) {
    RowMeasure of;
    const auto count = static_cast<float>(p.k);
    if (p.norm.centred) of.mean = total(shared.sums[0][row]) / count;
    if (p.norm.w) of.rstd = rsqrtf(total(shared.sums[1][row]) / count + p.norm.eps);
    return of;
  }
  template <class T, class C>
  __device__ Pack<T, kUnit> normal(const Arguments<T, C>& p, const Pack<T, kUnit>& a, const T* w,
                                   const T* shift) const {
    return p.norm.w == nullptr ? a : few::normal(p, a, w, shift, *this);
  }
};

// Rows of x as fp16 where they lay as T, and totals of 32, where the type has a least.
template <bool kWithTotals>
struct HalfRows {
  __half* const rows;
  __half* const totals;
  const int stride, totals_stride;

  __device__ static float inverse(float scale) {
    return __uint_as_float((254u << 23) - __float_as_uint(scale));
  }
  // The unit of row i at element x of what is held; all lanes of a warp, at units in a row.
  template <class T>
  __device__ void put(int i, int x, const Pack<T, kUnit>& unit, float scale) const {
    std::uint32_t words[4];
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      words[n] = pack_pair<__half>(unit[2 * n] * scale, unit[2 * n + 1] * scale);
      if (kWithTotals) sum += half_of(words[n], 0) + half_of(words[n], 1);
    }
    *reinterpret_cast<uint4*>(rows + i * stride + x) =
        make_uint4(words[0], words[1], words[2], words[3]);
    if constexpr (kWithTotals) {
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      if (threadIdx.x % 4 == 0) {
        const __half high = __float2half_rn(sum);
        __half* const to = totals + i * totals_stride + x / 256 * kTotals + x % 256 / 32;
        to[0] = high;
        to[8] = __float2half_rn(sum - __half2float(high));
      }
    }
  }
};

// Notes the sums that the norm needs of rows, and of each a number that its largest is no more
// than: of a centred norm the largest itself, of another that of a w, before it is divided by the
// root of the mean square.  for_units(i, f): calls f(unit, x) for those of row i that are this
// thread's; w: where the norm's weights are.  Of kAtOnce rows at once.
template <int kAtOnce, class T, class C, class Memory, class Units>
__device__ void measure_rows(const Arguments<T, C>& p, Memory& shared, const T* w, const T* shift,
                             const Units& for_units) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (p.norm.centred) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int i = 0; i < p.m; ++i) {
        float sum = 0;
        const float mean = pass == 0 ? 0 : total(shared.sums[0][i]) / static_cast<float>(p.k);
        for_units(i, [&](const Pack<T, kUnit>& own, int x) {
          if (x >= p.k) return;
#pragma unroll
          for (int n = 0; n < kUnit; ++n) {
            const float value = own[n] - mean;
            sum = pass == 0 ? sum + value : fmaf(value, value, sum);
          }
        });
        sum = over_lanes(sum);
        if (threadIdx.x % 32 == 0) shared.sums[pass][i][warp] = sum;
      }
      __syncthreads();
    }
  }
  const bool scaled = p.norm.w != nullptr && !p.norm.centred;
  for (int i = 0; i < p.m; i += kAtOnce) {
    float most[kAtOnce] = {}, squares[kAtOnce] = {};
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (i + r >= p.m) break;
      for_units(i + r, [&](Pack<T, kUnit> own, int x) {
        if (x >= p.k) return;
        if (p.norm.centred)
          own = RowMeasure::normal_of(p, shared, i + r).normal(p, own, w + x, shift + x);
        const auto weights = scaled ? load<kUnit>(w + x) : Pack<T, kUnit>{};
#pragma unroll
        for (int n = 0; n < kUnit; ++n) {
          if (scaled) squares[r] = fmaf(own[n], own[n], squares[r]);
          const float size = scaled ? own[n] * (weights[n] + p.norm.offset) : own[n];
          most[r] = fmaxf(most[r], fabsf(size));
        }
      });
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffff, most[r], lanes));
        squares[r] += __shfl_xor_sync(0xffffffff, squares[r], lanes);
      }
    if (threadIdx.x % 32 != 0) continue;
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (i + r >= p.m) break;
      shared.largest[i + r][warp] = most[r];
      if (scaled) shared.sums[1][i + r][warp] = squares[r];
    }
  }
  __syncthreads();
}

}  // namespace mt::cuda::few
