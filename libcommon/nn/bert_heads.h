// BertHeads: what a BERT says of the tokens that it is asked of: which word stands there, and, of
// the first token of each text, whether the text's two parts have changed places.
//   words   loss = LmHead(norm(gelu(x W_d^T + b_d)), target), GeLU in its erf form
//   order   loss = cross-entropy(tanh(x W_p^T + b_p) W_b^T + b_b, target), of two classes
// No other token takes part, and no logits of others are made.  Tensor-parallel ranks share the
// vocabulary of words and have all else whole: each computes all rows that are asked of.
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/lm_head.h"

namespace mt {

class BertHeads {
 public:
  struct Order {
    Linear pooler, classes;
  };
  // Which tokens are asked of, and what for.
  struct Asked {
    ConstTensor rows;     // [asked] i32: of the micro-batch; the last ones are asked of the order
    ConstTensor row_of;   // [tokens] i32: for each, which of these it is; -1: none
    ConstTensor targets;  // [asked] i32
    ConstTensor weight;   // [asked]: by how much the objective changes with each loss
    std::int64_t order = 0;  // how many are asked of the order
  };
  struct Saved {
    ConstTensor row_of;
    Tensor x;     // [asked, hidden_size]
    Tensor h, a;  // x W_d^T + b_d, and gelu of it
    Norm::Saved norm;
    LmHead::Saved words;
    Tensor pooled, d_classes;  // tanh(...), and the gradient of what the classes are made of
  };
  BertHeads(Linear dense, Norm norm, LmHead words, std::optional<Order> order)
      : dense_(dense), norm_(norm), words_(words), order_(order) {}

  // x: [rows, hidden_size] of hidden states;  loss: [asked].
  void forward(Step& s, Tensor loss, ConstTensor x, const Asked& asked, Saved* saved) const;
  void backward(Step& s, Tensor dx, const Saved& saved) const;

  // These make of rows of hidden states, on one rank, the words' logits, [rows, tokens], and what
  // the head for the order reads, tanh(x W_p^T + b_p).
  void logits(Step& s, Tensor logits, ConstTensor x) const;
  void pool(Step& s, Tensor pooled, ConstTensor x) const;

 private:
  void losses_of_words(Step& s, Tensor loss, ConstTensor x, const Asked& asked, Saved* saved) const;
  void losses_of_order(Step& s, Tensor loss, ConstTensor x, const Asked& asked, Saved* saved) const;

  Linear dense_;
  Norm norm_;
  LmHead words_;
  std::optional<Order> order_;
};

}  // namespace mt
