// FurtherTokens: layers behind a model's last that predict further tokens than the next one, each
// from what the one before it made and from the token that was predicted there (DeepSeek-AI:
// arXiv:2412.19437, section 2.2, eq. 21 to 25; core_v0.12.1,
// core/transformer/multi_token_prediction.py):
//   u_i = W_i [norm_e(embedding(ids_i)) ; norm_h(h_{i-1})]     h_i = norm_f(layer_i(u_i))
//   loss_i = the head's of h_i and labels_i
// h_0: the model's last hidden states behind its final norm, [rows, hidden_size], as h_i;  ids_i,
// labels_i: those of the Step's tokens, i further on.  The embedding and the head are the model's.
// In a generation a token's keys and values in the i-th of these layers lie in the token's own
// place of the cache: they are what h_{i-1} of the token before it, which the cache has too, and
// its own embedding make, so that they are of tokens up to it alone.  Hence u_i of the token at
// position p lies where p + i does, by which it is turned as well, which changes no score, and the
// first i places have nothing. W_i: [hidden_size, 2 hidden_size], which tensor-parallel ranks each
// have whole, for their rows.
#pragma once

#include <vector>

#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/stack.h"

namespace mt {

class FurtherTokens {
 public:
  struct Depth {
    Norm of_embedding, of_hidden;
    Linear join;
    Stack layer;  // one, or a hybrid's several
    Norm final_norm;
    RowRange rows = {};            // of the model's table, without the layer's
    std::int64_t first_layer = 0;  // of the model, and of a cache
  };
  struct SavedDepth {
    Embedding::Saved embedding;
    Tensor embedded, joined;  // [rows, hidden_size], [rows, 2 hidden_size]
    Norm::Saved of_embedding, of_hidden;
    Stack::Saved layer;
    Tensor y;  // of the layer
    Norm::Saved final_norm;
    Tensor h;
    LmHead::Saved head;
  };
  struct Saved {
    ConstTensor h0;
    std::vector<SavedDepth> depths;
  };
  // What each depth reads and fills, one behind the other: [depths, tokens].
  struct Asked {
    ConstTensor ids, labels;  // i32
    ConstTensor weight;       // of the losses, in training
    Tensor loss;
  };
  FurtherTokens(std::vector<Depth> depths, const Embedding& embedding, const LmHead& head)
      : depths_(std::move(depths)), embedding_(&embedding), head_(&head) {}

  void forward(Step& s, ConstTensor h0, const Asked& asked, Saved* saved) const;
  // How many depths the Step's past has room for.
  std::size_t followed(const Step& s) const;
  // Keeps what guess() needs of the Step's tokens, of which the model made h0.
  void follow(Step& s, ConstTensor h0, ConstTensor ids) const;
  // Returns the depth's h, from 1, for `ids`, of each sequence the token that stands `depth` places
  // behind the last that the model has seen; the nearer ones have been given to the depths before.
  Tensor guess(Step& s, std::int64_t depth, ConstTensor ids) const;
  // d_h0: what the head says of h0; returns that and what comes of all depths, in `layer`.
  Tensor backward(Step& s, ConstTensor d_h0, const Saved& saved) const;

 private:
  Step at(const Step& s, std::size_t depth) const;
  Tensor forward(Step& s, const Depth& depth, ConstTensor h, ConstTensor ids,
                 SavedDepth* saved) const;
  Tensor go_on(Step& s, std::size_t depth, ConstTensor ids) const;
  void backward(Step& s, const Depth& depth, Tensor d_h, ConstTensor dy, ConstTensor residual,
                ConstTensor h, const SavedDepth& saved) const;

  std::vector<Depth> depths_;
  const Embedding* embedding_;
  const LmHead* head_;
};

}  // namespace mt
