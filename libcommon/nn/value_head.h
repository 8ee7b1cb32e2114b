// ValueHead: how much a policy expects each of its tokens' texts to be worth from there on,
//   value[t] = x[t] . w
// x: [rows, hidden_size] of hidden states;  w: [1, hidden_size];  values: [tokens] of the
// sum_dtype. Tensor-parallel ranks have w whole, and all values: where they share the rows of
// hidden states, each makes its rows', and has their part of w's gradient.
#pragma once

#include "nn/linear.h"

namespace mt {

class ValueHead {
 public:
  struct Saved {
    ConstTensor x;
    Tensor d_values;  // the gradient of this rank's rows' values, [rows, 1]
  };
  explicit ValueHead(Linear values) : values_(values) {}

  void forward(Step& s, Tensor values, ConstTensor x) const;
  // Keeps what backward needs: d_values is the gradient of all values.
  void keep(Step& s, ConstTensor x, ConstTensor d_values, Saved& saved) const;
  // dx = residual + the gradient through this head.
  void backward(Step& s, Tensor dx, ConstTensor residual, const Saved& saved) const;

 private:
  Linear values_;
};

}  // namespace mt
