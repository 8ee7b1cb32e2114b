// CrossAttention: attention of tokens to what an encoder made of another text, the Step's memory,
// and the residual around it.
//   y = residual + dropout(W_o attend(W_q x, W_kv memory) + b_o)
// x, y, residual: [rows, hidden_size];  W_kv: of each head the rows of its key, then of its value.
// Nothing turns, and each sequence's tokens see all of its memory's.  Where the memory has fewer
// sequences, as many that follow each other see the same one of it.  With a past in the Step, its
// cache keeps W_kv memory: what the Step has of a memory is put there.
#pragma once

#include "nn/attention_core.h"
#include "nn/linear.h"

namespace mt {

class CrossAttention {
 public:
  struct Options {
    AttentionCore::Options core;  // with as many key heads as heads
    double hidden_dropout = 0;
  };
  struct Saved {
    Tensor q, kv;  // [tokens, heads, head_dim], [sequences, memory's tokens, 2 heads head_dim]
    AttentionCore::Saved core;
  };
  CrossAttention(Linear q, Linear kv, Linear proj, const Options& options)
      : q_(q), kv_(kv), proj_(proj), options_(options), core_(options.core) {}

  ConstTensor first_weight() const { return q_.weight(); }  // not to be multiplied with

  // y empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  // Without the residual.  Adds to the memory's gradient.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  Dropout hidden_dropout(const Step& s) const;
  Tensor keys_and_values(Step& s, const Saved* saved) const;

  Linear q_, kv_, proj_;
  Options options_;
  AttentionCore core_;
};

}  // namespace mt
