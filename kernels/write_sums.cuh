// write_sums.cuh: how products on Hopper write the sums that wgmma leaves in the registers of a
// warp group (wgmma.cuh).  Each warp has 16 rows of them, which go to the rows of c, [..., n], from
// `row` on and to its columns from `column` on; rows from `end` on and columns from n on are not
// written. `sums` are of 2 kSums columns, a multiple of 64; n is a multiple of 8.
#pragma once

#include "kernels/hopper.cuh"
#include "kernels/pack.cuh"

namespace mt::cuda {

constexpr int kStripColumns = 64, kStrip = 16 * kStripColumns;  // bf16: a warp's way out

// Writes them rounded to bf16, by way of the warp's strip in shared memory, eight columns at a
// time.
template <int kSums>
__device__ void write_rounded(__nv_bfloat16* c, const float (&sums)[kSums], __nv_bfloat16* strip,
                              int row, int end, int column, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
#pragma unroll
  for (int j = 0; j < 2 * kSums; j += kStripColumns) {
    __syncwarp();  // what was in the strip has been read
#pragma unroll
    for (int unit = 0; unit < kStripColumns / 8; unit += 2) {
      const float* const s = sums + (j / 8 + unit) * 4;
      store_matrices(strip + swizzled(matrix % 2 * 8 + lane % 8, unit + matrix / 2),
                     pack_pair<__nv_bfloat16>(s[0], s[1]), pack_pair<__nv_bfloat16>(s[2], s[3]),
                     pack_pair<__nv_bfloat16>(s[4], s[5]), pack_pair<__nv_bfloat16>(s[6], s[7]));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = i * 4 + lane / 8, unit = lane % 8, at = column + j + unit * 8;
      if (row + r < end && at < n)
        store(c + std::int64_t{row + r} * n + at, load<8>(strip + swizzled(r, unit)));
    }
  }
}

// Writes them as they lie in registers, two columns at a time, or adds them to what is there.
template <bool kAccumulate, int kSums, class C>
__device__ void write_pairs(C* c, const float (&sums)[kSums], int row, int end, int column, int n) {
  constexpr int kTogether = 8;  // on their way
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int first = 0; first < kSums / 4; first += kTogether) {
    Pack<C, 2> before[kTogether][2] = {};
    const auto for_pairs = [&](const auto& body) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = row + lane / 4 + half * 8, at = column + (first + j) * 8 + lane % 4 * 2;
          if (r < end && at < n) body(j, half, c + std::int64_t{r} * n + at);
        }
    };
    if constexpr (kAccumulate)
      for_pairs([&](int j, int half, const C* from) { before[j][half] = load<2>(from); });
    for_pairs([&](int j, int half, C* to) {
      const float* const s = sums + (first + j) * 4 + half * 2;
      const auto& there = before[j][half];
      const float all[] = {there[0] + s[0], there[1] + s[1]};
      store(to, Pack<C, 2>::of(all));
    });
  }
}

}  // namespace mt::cuda
