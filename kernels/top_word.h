// kernels/top_word.h: whether a row's largest logit, the first of those that are as large, is its
// label's.
//   tops [2, rows] of these columns: the largest logit, and which column of the vocabulary it is
//        in; then those of all who hold columns are gathered, [ranks, 2, rows]
//   hit  [rows]: 1 or 0
// logits: [rows, cols], columns of a vocabulary that ranks may share (kernels/cross_entropy.h).
// T: float or double, which have all column numbers below 2^24; on the GPU logits are float, bf16
// or fp16, the others float.
#pragma once

#include "kernels/cross_entropy.h"

namespace mt::cpu {
template <class T>
void top_words(T* tops, const T* logits, const VocabularyPart& part);
template <class T>
void top_word_hits(T* hit, const T* tops, const std::int32_t* labels, const VocabularyPart& part);
}  // namespace mt::cpu

namespace mt::cuda {
template <class X>
void top_words(float* tops, const X* logits, const VocabularyPart& part, cudaStream_t stream);
void top_word_hits(float* hit, const float* tops, const std::int32_t* labels,
                   const VocabularyPart& part, cudaStream_t stream);
}  // namespace mt::cuda
