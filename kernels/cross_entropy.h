// kernels/cross_entropy.h: softmax cross-entropy of rows of logits, its gradient written over them.
//   loss[r] = log sum_c exp(logits[r,c]) - sum_c target[c] logits[r,c]
//   with gradient: logits[r,c] = row_weight[r] (softmax(logits[r,:])[c] - target[c])
//   target[c] = 1 - smoothing for the label, smoothing / (vocab - 1) for each of the others
//   (Szegedy et al.: arXiv:1512.00567, section 7, in Megatron-LM's form); 0 <= smoothing < 1
// Where ranks share the vocabulary, each has the logits' columns [first, first + cols) of `vocab`:
//   top   top[r] = max_c logits[r,c];  then the largest over the ranks
//   sums  logits[r,c] = exp(logits[r,c] - top[r]);  sums[0,r] their sum, sums[1,r] the label's
//         logit - top[r], 0 where the label is elsewhere, sums[2,r] = sum_c logits[r,c] - top[r];
//         then the sum over the ranks
//   part  loss[r] = log sums[0,r] - sum_c target[c] (logits[r,c] - top[r]), and the gradient
// logits: [rows, vocab];  loss, row_weight: [rows], row_weight null: logits stay as they are;
// labels: [rows], 0 <= label < vocab (the caller checks).  T: float or double;
// on the GPU logits are float, bf16 or fp16, loss and row_weight float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t vocab, double smoothing);

struct VocabularyPart {
  std::int64_t rows = 0, cols = 0, first = 0, vocab = 0;
};
template <class T>
void cross_entropy_top(T* top, const T* logits, std::int64_t rows, std::int64_t cols);
template <class T>
void cross_entropy_sums(T* sums, T* logits, const std::int32_t* labels, const T* top,
                        const VocabularyPart& part);
template <class T>
void cross_entropy_part(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                        const T* sums, const VocabularyPart& part, double smoothing);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void cross_entropy(float* loss, T* logits, const std::int32_t* labels, const float* row_weight,
                   std::int64_t rows, std::int64_t vocab, double smoothing, cudaStream_t stream);
}
