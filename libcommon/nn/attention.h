// Attention: causal self-attention with grouped queries, and the residual around it.
//   y = residual + dropout(W_o attend(W_qkv x) + b_o)
// x, y, residual: [rows, hidden_size].  With a past in the Step, keys and values of the tokens
// before come from its cache, and those of x are put there, at the Step's positions.  The Step's
// first_key parts the documents of a sequence.  Without a past, rotary positions are those in the
// sequence, whatever the Step's positions are, as in Megatron.
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/norm.h"

namespace mt {

struct AttentionOptions {
  std::int64_t layer = 0;  // of this model, from 0: the cache's, and what random numbers depend on
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of this rank
  std::int64_t first_head = 0;                         // of the layer's, the first of these
  std::int64_t window = -1;  // keys before its own that a token may see; -1: all
  double attention_dropout = 0, hidden_dropout = 0;
  bool recompute_core = false;  // the backward makes o and lse again
  ConstTensor inv_freq;  // [rotated channels / 2] f64 of host memory; empty: no rotary embedding
  bool rotary_interleaved = false;
};

class Attention {
 public:
  struct Saved {
    // [tokens, heads or kv_heads, head_dim], normalised and rotated; without k and v, q is the
    // projection's rows, rotated
    Tensor q, k, v;
    Tensor o, lse;        // [tokens, heads, head_dim], [sequences, heads, seq_length]
    Tensor raw_q, raw_k;  // before their norms, where there are any
    Norm::Saved q_norm, k_norm;
  };
  // Norms of each head's channels, of queries and of keys: both or none.
  struct HeadNorms {
    Norm q, k;
  };
  Attention(Linear qkv, Linear proj, const AttentionOptions& options,
            const std::optional<HeadNorms>& norms = {})
      : qkv_(qkv), proj_(proj), options_(options), norms_(norms) {}

  // With a norm, x is its input.  ahead: as in Matmul, for tokens in a cache, whose attention
  // leaves a GPU's memory idle.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  void attend_past(Step& s, Tensor o, Tensor lse, Tensor qkv) const;
  void norm_heads(Step& s, Tensor qkv) const;

  // Whether queries, keys and values stay where the projection puts them.
  bool packed(const Step& s) const;
  void attend(Step& s, Tensor o, Tensor lse, const Saved& v) const;
  Tensor all_heads(const Tensor& rows) const;
  Saved project(Step& s, ConstTensor x, Saved* saved, const Norm* norm) const;
  void project_backward(Step& s, Tensor dx, Tensor dq, Tensor dk, Tensor dv, ConstTensor x,
                        const Saved& saved) const;
  void turn(Step& s, Tensor x, bool inverse) const;
  void norm_and_turn(Step& s, Tensor y, Tensor x, const Norm* norm, Norm::Saved* saved) const;
  Tensor norm_and_turn_backward(Step& s, Tensor dy, Tensor x, const Norm* norm,
                                const Norm::Saved& saved) const;

  Linear qkv_, proj_;
  AttentionOptions options_;
  std::optional<HeadNorms> norms_;
};

}  // namespace mt
