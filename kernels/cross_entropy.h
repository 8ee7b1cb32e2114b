// kernels/cross_entropy.h: softmax cross-entropy of rows of logits, its gradient written over them.
//   loss[r] = log sum_c exp(logits[r,c]) - logits[r,label[r]]
//   with gradient: logits[r,c] = row_weight[r] (softmax(logits[r,:])[c] - [c = label[r]])
// logits: [rows, vocab];  loss, row_weight: [rows], row_weight null: logits stay as they are;
// labels: [rows], 0 <= label < vocab (the caller checks).  T: float or double.
#pragma once

#include <cstdint>

namespace mt::cpu {
template <class T>
void cross_entropy(T* loss, T* logits, const std::int32_t* labels, const T* row_weight,
                   std::int64_t rows, std::int64_t vocab);
}
