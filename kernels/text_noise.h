// kernels/text_noise.h: NEFTune's noise (arXiv:2310.05914), less the longer a text is:
//   y[r,c] += alpha / sqrt(n cols) u      u uniform in (-1, 1)
// n: the tokens of the text that row r is a token of.  With i = first_row + r, u is of word c % 4
// of philox({c / 4, position, 1, sample}, key), as dropout's are (kernels/dropout.h) but for the 1:
// of sample record->first_sample + i / seq_length and position i % seq_length. first_key: of all
// tokens of the micro-batch, where in its sequence the text of each begins; or null, where each
// sequence has one text, which is in front of padding, and `lengths` are these texts'.
// y: [rows, cols] of T; T: float or double; on the GPU float, bf16 or fp16, and record and lengths
// lie there.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "kernels/cuda_types.h"
#include "kernels/step_record.h"

namespace mt {
struct TextNoise {
  double alpha = 0;
  RandomKey key;
  std::int64_t seq_length = 1;
  std::int64_t first_row = 0;  // among the micro-batch's
  const StepRecord* record = nullptr;
  const std::int32_t* lengths = nullptr;  // [sequences]
};

// The tokens of the text that token `position` of a sequence with these first keys, which do
// not descend, is part of.
constexpr std::int64_t text_length(const std::int32_t* first_key, std::int64_t position,
                                   std::int64_t seq_length) {
  const std::int32_t begin = first_key[position];
  std::int64_t low = position, high = seq_length;  // the text goes on at low, and not at high
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (first_key[middle] == begin ? low : high) = middle;
  }
  return high - begin;
}

// The tokens of the text of token i of the micro-batch; padding's are no fewer than one.
constexpr std::int64_t text_length(const TextNoise& noise, const std::int32_t* first_key,
                                   std::int64_t i) {
  const std::int64_t position = i % noise.seq_length;
  if (first_key != nullptr)
    return text_length(first_key + (i - position), position, noise.seq_length);
  const std::int64_t length = noise.lengths[i / noise.seq_length];
  return length > 1 ? length : 1;
}
}  // namespace mt

namespace mt::cpu {
template <class T>
void add_text_noise(T* y, const std::int32_t* first_key, std::int64_t rows, std::int64_t cols,
                    const TextNoise& noise);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void add_text_noise(T* y, const std::int32_t* first_key, std::int64_t rows, std::int64_t cols,
                    const TextNoise& noise, cudaStream_t stream);
}  // namespace mt::cuda
