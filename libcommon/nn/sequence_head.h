// SequenceHead: what a model says of each of its sequences, from the hidden state of one token:
//   scores = dropout(tanh(x W_p^T + b_p)) W^T + b      with a pooler, as a BERT has one
//   scores = dropout(x) W^T + b                        without; b may be missing
// What becomes of the scores is not known here.  Every tensor-parallel rank computes all of them.
#pragma once

#include <optional>

#include "nn/linear.h"

namespace mt {

struct Dropout;

class SequenceHead {
 public:
  // Which tokens are asked of, one of each sequence.
  struct Asked {
    ConstTensor rows;    // [sequences] i32: of the micro-batch
    ConstTensor row_of;  // [tokens] i32: for each, which of these it is; -1: none
  };
  struct Saved {
    ConstTensor row_of;
    Tensor x, pooled, dropped;  // of the tokens; tanh(...); what the scores are made of
    Tensor scores;              // in backward, the gradient of them
  };
  SequenceHead(std::optional<Linear> pooler, Linear scores, double dropout)
      : pooler_(pooler), scores_(scores), dropout_(dropout) {}

  // x: [rows, hidden_size] of hidden states.  Returns the scores, [sequences, labels]: with `saved`
  // they are its own, and the gradient is to be written over them before backward.
  Tensor forward(Step& s, ConstTensor x, const Asked& asked, Saved* saved) const;
  void backward(Step& s, Tensor dx, const Saved& saved) const;

 private:
  Dropout dropout(const Step& s) const;

  std::optional<Linear> pooler_;
  Linear scores_;
  double dropout_;
};

}  // namespace mt
