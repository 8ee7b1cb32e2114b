// 16 rows of attention in one warp, over blocks of keys with a running maximum and sum
// (attention.h).
#pragma once

#include "kernels/attention_tile.cuh"

namespace mt::cuda {

// How many rows and keys a block of the kernels for every GPU takes at a time, and with how many
// warps.
template <class T, int kHeadDim, Code kOf>
struct BlockSizes {
  static constexpr bool kWide = sizeof(T) == 4;
  // On Turing half as many.
  static constexpr int kWarps =
      (kWide ? (kHeadDim == 256 ? 2 : 4) : (kHeadDim == 256 ? 4 : 8)) / (kRoomy<kOf> ? 1 : 2);
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kKeys = kWide ? (kHeadDim == 256 ? 16 : 32) : (kHeadDim == 256 ? 32 : 64);
};

// Each thread has parts of two rows, 8 apart, in the order of warp_product.cuh; `row` is the first.
template <int kChannels, int kKeys>
struct WarpRows {
  const HeadGroup& at;
  const int row;
  float scores[kKeys / 2], o[kChannels / 2] = {};
  float max[2] = {-kInfinity, -kInfinity}, sum[2] = {};
  int first_key[2], last_key[2];

  __device__ WarpRows(const HeadGroup& heads, int first_row)
      : at(heads), row(first_row + lane() / 4) {
    for (int r = 0; r < 2; ++r) {
      first_key[r] = at.first(row + 8 * r);
      last_key[r] = at.last(row + 8 * r);
    }
  }

  // scores = Q K^T.
  template <class T>
  __device__ void multiply_keys(const T* q, const T* k) {
#pragma unroll
    for (float& score : scores) score = 0;
    multiply_rows<kChannels, kKeys>(scores, q, k);
  }

  // f(score, row 0 or 1, key), the first of the scores' keys given.
  template <class F>
  __device__ void for_scores(int first, const F& f) {
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i)
      f(scores[i], i / 2 % 2, first + i / 4 * 8 + lane() % 4 * 2 + i % 2);
  }

  // Keys that a row does not see have none.
  __device__ void add_bias(int first) {
    for_scores(first, [&](float& score, int r, int key) {
      if (key >= first_key[r] && key <= last_key[r]) score += at.bias(row + 8 * r, key);
    });
  }

  __device__ void cap() {
    float slope;
    for_scores(0, [&](float& score, int, int) { score = at.sizes.capped(score, slope); });
  }

  __device__ void mask(int first) {
    for_scores(first, [&](float& score, int r, int key) {
      if (key < first_key[r] || key > last_key[r]) score = -kInfinity;
    });
  }

  // Scores become exp(score - max) with the rows' new maxima; o and sum follow.
  __device__ void softmax() {
    const float scale = at.sizes.scale * kLog2e;
    float base[2], rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float next = max[r];
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4)
        next = fmaxf(next, fmaxf(scores[i], scores[i + 1]));
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 1));
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 2));
      base[r] = next == -kInfinity ? 0 : next * scale;  // a row may have seen no key
      rescale[r] = exp2_approx(max[r] * scale - base[r]);
      max[r] = next;
      sum[r] *= rescale[r];
    }
    for_scores(0, [&](float& score, int r, int) {
      score = exp2_approx(fmaf(score, scale, -base[r]));
      sum[r] += score;
    });
    // Later blocks seldom bring a new maximum.
    if (!__any_sync(0xffffffff, rescale[0] != 1 || rescale[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < kChannels / 2; ++i) o[i] *= rescale[i / 2 % 2];
  }

  __device__ void drop(int first, std::uint32_t sample) {
    for_scores(first,
               [&](float& score, int r, int key) { score *= at.factor(sample, row + 8 * r, key); });
  }

  // o += P V.
  template <class T>
  __device__ void multiply_values(const T* v, typename Left<T, kKeys>::Strip& strip) {
    multiply<row_stride<T>(kChannels), kChannels>(o, Left<T, kKeys>(scores, strip), v);
  }

  // What it found, in shared memory: o, unscaled, and of each row the maximum, times log2 e, and
  // the sum.
  template <int kStride>
  __device__ void leave(float (&to)[16][kStride], float (&max_of)[16], float (&sum_of)[16]) const {
#pragma unroll
    for (int i = 0; i < kChannels / 4; ++i)
      store_pair(&to[lane() / 4 + i % 2 * 8][i / 2 * 8 + lane() % 4 * 2], o[2 * i], o[2 * i + 1]);
    for (int r = 0; r < 2; ++r)
      if (lane() % 4 == 0) {
        max_of[lane() / 4 + 8 * r] = max[r] * at.sizes.scale * kLog2e;
        sum_of[lane() / 4 + 8 * r] = sum[r];
      }
  }

  // The four threads of a row have parts of its sum until here.
  __device__ void finish_sums() {
    for (float& part : sum) {
      part += __shfl_xor_sync(0xffffffff, part, 1);
      part += __shfl_xor_sync(0xffffffff, part, 2);
    }
  }
};

}  // namespace mt::cuda
