// kernels/text_sums.h: sums over the tokens of each text, where a row of tokens holds some texts
// one behind the other, and the way back.
//   sums[0,t] = -sum_i mask[i] x[i]      sums[1,t] = sum_i mask[i]         i: the tokens of text t
//   spread    x[i] = -slope[t] mask[i], and 0 for tokens of no text
// so that of losses of tokens, -log p, the first are log-probabilities of texts.
// x, mask: [rows, tokens];  lengths: [rows, texts] i32, of which the sum is at most `tokens`; sums:
// [2, rows texts];  slope: [rows texts].  Sums are in f64.  T: float or double; on the GPU float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct TextRows {
  const std::int32_t* lengths = nullptr;
  std::int64_t rows = 0, tokens = 0, texts = 0;

  // Tokens [begin, end) of all rows are text t of all.
  struct Range {
    std::int64_t begin, end;
  };
  constexpr Range range(std::int64_t t) const {
    std::int64_t begin = t / texts * tokens;
    for (std::int64_t before = t / texts * texts; before < t; ++before) begin += lengths[before];
    return {begin, begin + lengths[t]};
  }
  // Whether behind text t of its row there is none.
  constexpr bool is_last(std::int64_t t) const { return t % texts == texts - 1; }
  constexpr std::int64_t end_of_row(std::int64_t t) const { return (t / texts + 1) * tokens; }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void text_sums(T* sums, const T* x, const T* mask, const TextRows& rows);
template <class T>
void spread_over_texts(T* x, const T* slope, const T* mask, const TextRows& rows);
}  // namespace mt::cpu

namespace mt::cuda {
void text_sums(float* sums, const float* x, const float* mask, const TextRows& rows,
               cudaStream_t stream);
void spread_over_texts(float* x, const float* slope, const float* mask, const TextRows& rows,
                       cudaStream_t stream);
}  // namespace mt::cuda
