// kernels/dropout.cuh: which elements of a pack dropout keeps (kernels/dropout.h).
#pragma once

#include "kernels/divisor.cuh"
#include "kernels/dropout.h"
#include "kernels/pack.cuh"

namespace mt::cuda {

template <class Index>  // unsigned, of a row and of a channel
struct DropoutMask {
  const StepRecord* record;
  Divisor<Index> by_seq_length;
  Index seq_length, first_row, first_channel;
  std::uint32_t threshold;
  float kept;  // what kept values are multiplied with; 0: there is no dropout
  RandomKey key;

  explicit DropoutMask(const Dropout& dropout)
      : record(dropout.record),
        by_seq_length(static_cast<Index>(dropout.seq_length)),
        seq_length(static_cast<Index>(dropout.seq_length)),
        first_row(static_cast<Index>(dropout.first_row)),
        first_channel(static_cast<Index>(dropout.first_channel)),
        threshold(dropout.threshold()),
        kept(dropout.p > 0 ? static_cast<float>(1 / (1 - dropout.p)) : 0),
        key(dropout.key) {}

  // What the operator is to be told, asked for early as it comes from memory.
  __device__ std::uint32_t first_sample() const {
    return kept == 0 ? 0 : static_cast<std::uint32_t>(record->first_sample);
  }

  // factor[n] for column + n of the row; N is 1 or a multiple of 4, as are then the column and the
  // first channel.
  template <int N>
  __device__ void operator()(float (&factor)[N], Index row, Index column,
                             std::uint32_t first_sample) const {
    if (kept == 0) {
#pragma unroll
      for (int n = 0; n < N; ++n) factor[n] = 1;
      return;
    }
    const Index first = first_channel + column;
    const Index of_all = first_row + row, samples_before = by_seq_length(of_all);
    const auto sample = static_cast<std::uint32_t>(first_sample + samples_before);
    const auto position = static_cast<std::uint32_t>(of_all - samples_before * seq_length);
    const auto four = static_cast<std::uint32_t>(first / 4);
    if constexpr (N == 1) {
      const Counter words = philox({four, position, 0, sample}, key);
      const std::uint32_t low = first % 2 ? words[1] : words[0];
      const std::uint32_t high = first % 2 ? words[3] : words[2];
      factor[0] = (first % 4 < 2 ? low : high) >= threshold ? kept : 0;
    } else {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) {
        const Counter words = philox({four + i, position, 0, sample}, key);
#pragma unroll
        for (int n = 0; n < 4; ++n) factor[4 * i + n] = words[n] >= threshold ? kept : 0;
      }
    }
  }
};

}  // namespace mt::cuda
