// ChunkedCrossAttention: attention of a sequence's chunks to their neighbours (Borgeaud et al.:
// arXiv:2112.04426, 2.3; as Megatron-LM core_v0.12.1 has it, megatron/core/models/retro), and the
// residual around it.  x, y, residual: [rows, hidden_size].
//
// A sequence of n tokens is cut into l = ceil(n / m) chunks of m tokens, the first of which is the
// shorter one, if any.  The last token of a chunk and the m - 1 behind it attend to the neighbours
// of that chunk: token t >= p to those of chunk (t - p) / m, with p = (n - 1) mod m.
//   y_t = residual_t + dropout(W_o attend(W_q x_t, W_kv e) + b_o)        y_t = residual_t, t < p
// where e is what the Step's neighbours are encoded as, of all neighbours of the chunk.
//
// The module of a stack's first layer that retrieves has the encoder, too, which attends to the
// chunk's own x, and fills `encoded` before it is read.  A first chunk that is shorter ends with
// zeroes there, which are seen.
//
// Where the Step has no neighbours the retriever is off, and y = residual.
#pragma once

#include <memory>

#include "nn/cross_attention.h"

namespace mt {

class Stack;

class ChunkedCrossAttention {
 public:
  struct EncoderSaved;
  struct Saved {
    CrossAttention::Saved attention;
    std::shared_ptr<EncoderSaved> encoder;
  };
  ChunkedCrossAttention(CrossAttention attention, std::int64_t chunk_length,
                        std::shared_ptr<const Stack> encoder)
      : attention_(std::move(attention)),
        chunk_length_(chunk_length),
        encoder_(std::move(encoder)) {}

  ConstTensor first_weight() const { return attention_.first_weight(); }

  // y empty: not wanted.  With a norm, x is its input.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  // Without the residual.  Adds to the gradient of what neighbours are encoded as; an encoder's
  // fills that of their embeddings.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  Step over_chunks(const Step& s) const;
  void encode(Step& s, ConstTensor x, Saved* saved) const;
  void encode_backward(Step& s, Tensor dx, ConstTensor x, const Saved& saved) const;

  CrossAttention attention_;
  std::int64_t chunk_length_;
  std::shared_ptr<const Stack> encoder_;  // null: a layer before has it
};

}  // namespace mt
