// The operations of latent attention beside its products (kernels/latent_heads.h).
#pragma once

#include "kernels/latent_heads.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// q, k, v: [tokens, heads, width];  of rows q: [tokens, heads q_width], kv: [tokens, heads
// kv_width], turning: [tokens, turning].
struct LatentHeadTensors {
  Tensor q, k, v;
};
struct LatentRowTensors {
  Tensor q, kv, turning;
};
void latent_heads_forward(const LatentHeadTensors& heads, const LatentRowTensors& rows,
                          const LatentHeads& shape, Stream& stream);
void latent_heads_backward(const LatentRowTensors& rows, const LatentHeadTensors& heads,
                           const LatentHeads& shape, Stream& stream);

// a: [rows, first];  x: [rows, first + second];  b: [rows, second], or empty.
void split_columns(Tensor a, Tensor b, ConstTensor x, Stream& stream);
void merge_columns(Tensor x, ConstTensor a, ConstTensor b, Stream& stream);

}  // namespace mt
