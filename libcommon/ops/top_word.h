// Which labels are what logits hold for the likeliest (kernels/top_word.h).
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// The columns from `first` on of a vocabulary of `vocab`: logits [rows, cols], tops [2, rows], then
// [ranks, 2, rows] of all who hold columns; labels [rows] i32; hits [rows].
void top_words(Tensor tops, ConstTensor logits, std::int64_t first, std::int64_t vocab,
               Stream& stream);
void top_word_hits(Tensor hits, ConstTensor tops, ConstTensor labels, Stream& stream);

}  // namespace mt
