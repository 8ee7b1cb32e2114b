// LmHead: logits of the next token, and their cross-entropy with the labels, some rows at a time so
// that the logits of a micro-batch are never stored.
//   logits = cap(m (x W^T + b))      loss[t] = cross-entropy(logits[t], labels[t])
//   cap(l) = softcap tanh(l / softcap), or l if softcap is 0
// Tensor-parallel ranks share the vocabulary: each makes its columns of the logits, and all have
// the losses, and the logits that are asked for. x: [rows, hidden_size];  W: [vocab, hidden_size];
// b: [vocab] or none;  labels: [tokens] i32;  loss, row_weight: [tokens].  Rows of W behind the
// first vocab_size pad it: no loss depends on them, and their gradient is 0.
#pragma once

#include "kernels/distill_loss.h"
#include "kernels/hidden_loss.h"
#include "nn/norm.h"

namespace mt {

struct Teaching;

class LmHead {
 public:
  struct Saved {
    Tensor dx;
  };
  // Scaling: what becomes of logits.
  struct Scaling {
    double multiplier = 1, softcap = 0;
  };
  // In training, labels are smoothed (kernels/cross_entropy.h).
  LmHead(const Param& weight, std::int64_t vocab_size, double label_smoothing = 0,
         const Param* bias = nullptr)
      : weight_(&weight), bias_(bias), vocab_size_(vocab_size), label_smoothing_(label_smoothing) {}
  LmHead(const Param& weight, std::int64_t vocab_size, double label_smoothing,
         const Scaling& scaling)
      : LmHead(weight, vocab_size, label_smoothing) {
    scaling_ = scaling;
  }

  // This head, whose logits are divided by a temperature at last; one with a bias learns at 1
  // alone, else loss() throws Exit::bad_config.
  LmHead at(double temperature) const;

  // With `saved`, also the gradient of sum_t row_weight[t] loss[t]: W's is added at once, because
  // the logits are at hand only now, of some rows after the other (gradients that are kept in bf16
  // are rounded each time); x's waits in `saved`.
  // hits, [tokens], unless empty: 1 where the label has the largest of a token's logits, else 0.
  void loss(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, ConstTensor row_weight,
            Saved* saved, Tensor hits = {}) const;
  // How far tokens' logits are from a teacher's, and their cross-entropy with the labels; where
  // hidden states are compared, too, how far x is from those that the teacher's head reads.  loss,
  // weight: [2 or 3, tokens], one behind the other; gradients as of loss().
  void distill(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, ConstTensor weight,
               const Teaching& teaching, Saved* saved) const;
  // The logits of the first tokens of the vocabulary, as many as asked for: [rows, tokens].  With a
  // norm, norm(x) takes the place of x.
  void logits(Step& s, Tensor logits, ConstTensor x, const Norm* norm = nullptr) const;
  // Makes the logits of this rank's tokens of the vocabulary alone, or of the first of them.
  void own_logits(Step& s, Tensor logits, ConstTensor x, const Norm* norm = nullptr) const;
  // loss[r] = -log softmax(logits[r])[labels[r]] over the first `tokens` of the vocabulary.
  void score(Step& s, Tensor loss, ConstTensor x, ConstTensor labels, std::int64_t tokens) const;

 private:
  Tensor bias(Step& s, std::int64_t tokens) const;
  static std::int64_t rows_at_once(DType dtype, std::int64_t hidden_size);  // of logits
  std::int64_t columns() const { return weight_->local[0]; }                // of this rank's logits
  ConstTensor multiplied(Step& s, ConstTensor x) const;
  void cap(Step& s, Tensor logits, Tensor tanh) const;
  void find_hits(Step& s, Tensor hits, ConstTensor logits, ConstTensor labels) const;
  void losses_of(Step& s, Tensor loss, Tensor logits, ConstTensor labels,
                 ConstTensor row_weight) const;

  const Param* weight_;
  const Param* bias_;
  std::int64_t vocab_size_;
  double label_smoothing_;
  Scaling scaling_ = {};
};

// Teaching: what another model says of the same tokens, the words of which are the same, too.
struct Teaching {
  const LmHead* head = nullptr;
  ConstTensor hidden = {};  // [rows, its hidden_size]: what that reads
  Distance distance = {};
  HiddenLoss of_hidden = HiddenLoss::none;
};

}  // namespace mt
