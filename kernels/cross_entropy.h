// kernels/cross_entropy.h: softmax cross-entropy of rows of logits, its gradient written over them.
//   loss[r] = log sum_c exp(logits[r,c]) - sum_c target[c] logits[r,c]
//   with gradient: logits[r,c] = row_weight[r] (softmax(logits[r,:])[c] - target[c])
//   target[c] = 1 - smoothing for the label, smoothing / (vocab - 1) for each of the others
// Sums are over the words, c < vocab.  Columns behind them pad the vocabulary: whatever they hold,
// they count as -infinity, and their gradient is 0.
//   (Szegedy et al.: arXiv:1512.00567, section 7, in Megatron-LM's form); 0 <= smoothing < 1
// Where ranks share the vocabulary, each has the logits' columns [first, first + cols) of `vocab`:
//   sums  of these: sums[0,r] = max_c logits[r,c], on the GPU a number at most 8 below it,
//         sums[1,r] = sum_c exp(logits[r,c] - sums[0,r]), sums[2,r] the label's logit, 0 where the
//         label is elsewhere, sums[3,r] = sum_c logits[r,c]; then those of all ranks are gathered,
//         [ranks, 4, rows]
//   part  the loss and these columns of the gradient
// logits: [rows, cols];  loss, row_weight: [rows], row_weight null: logits stay as they are;
// labels: [rows], 0 <= label < vocab (the caller checks).  A row with a NaN has the loss NaN.
// T: float or double; on the GPU logits are float, bf16 or fp16, loss and row_weight float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct VocabularyPart {
  std::int64_t rows = 0, cols = 0, first = 0, vocab = 0;
  int ranks = 1;

  // Returns how many of these columns are words.
  constexpr std::int64_t words() const {
    const std::int64_t left = vocab > first ? vocab - first : 0;
    return left < cols ? left : cols;
  }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t cols, std::int64_t vocab, double smoothing);

template <class T>
void cross_entropy_sums(T* sums, const T* logits, const std::int32_t* labels,
                        const VocabularyPart& part);
template <class T>
void cross_entropy_part(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                        const T* sums, const VocabularyPart& part, double smoothing);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void cross_entropy(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                   std::int64_t rows, std::int64_t cols, std::int64_t vocab, double smoothing,
                   cudaStream_t stream);
template <class T>
void cross_entropy_sums(float* sums, const T* logits, const std::int32_t* labels,
                        const VocabularyPart& part, cudaStream_t stream);
template <class T>
void cross_entropy_part(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                        const float* sums, const VocabularyPart& part, double smoothing,
                        cudaStream_t stream);
}  // namespace mt::cuda
