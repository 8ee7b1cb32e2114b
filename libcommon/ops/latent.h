// The operations of latent attention beside its products (kernels/latent_heads.h), and those of a
// generation, whose cache has latents (kernels/cached_latents.h).
#pragma once

#include "kernels/cached_latents.h"
#include "kernels/latent_heads.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// q, k, v: [tokens, heads, width], in forward q may be empty;  of rows q: [tokens, heads q_width],
// kv: [tokens, heads kv_width], turning: [tokens, turning].
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

// q, [tokens, heads, turning + rank], gets the channels that turn, and the cache, [slots, capacity,
// 1, turning + rank], what is kept of the tokens.  q_rows: [tokens, heads (fixed + turning)];
// turning, angles: [tokens, turning]; latents: [tokens, rank]; positions: [tokens] i32; slots:
// [sequences, runs] i32.
struct CachedLatentTensors {
  Tensor q, cache;
  ConstTensor q_rows, turning, latents, angles, positions, slots;
};
void cached_latents(const CachedLatentTensors& tensors, Stream& stream);

// out: [tokens, heads, out_width];  x: [tokens, heads, x_width];  w: [heads rows_of_head, cols].
// `shape` says which rows and channels; the rest of it need not be the tensors'.
void head_product(Tensor out, ConstTensor x, ConstTensor w, const HeadProductShape& shape,
                  Stream& stream);

// a: [rows, first];  x: [rows, first + second];  b: [rows, second], or empty.
void split_columns(Tensor a, Tensor b, ConstTensor x, Stream& stream);
void merge_columns(Tensor x, ConstTensor a, ConstTensor b, Stream& stream);

}  // namespace mt
