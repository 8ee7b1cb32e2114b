// QkClip: the largest scores that training's attentions find in a step, and what becomes of weights
// by which they are too large (Kimi Team: arXiv:2507.20534, section 2.1; Megatron-LM's --qk-clip).
// With M the largest score of a step of a head, or of the query heads that share a key head, over
// all micro-batches and data-parallel ranks, and g = min(1, threshold / M), or 1 if M <= 0,
//   rows of queries *= g^alpha      rows of keys *= g^(1 - alpha)
// of the projections after the step.  Of latent attention that is so of what does not turn; of what
// turns, whose keys all heads share, queries' rows *= g.  Biases, and layers that predict further
// tokens, stay as they are.  A score that is not finite clips nothing.
#pragma once

#include <span>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "optim/optimizer.h"
#include "tensor/buffer.h"
#include "tensor/param.h"
#include "train/options/qk_clip_options.h"

namespace mt {

class QkClip {
 public:
  QkClip(const QkClipOptions& options, const ModelConfig& model, const World& world,
         Stream& stream);

  // Where a step's attentions put what they find: Step::largest_scores, on the device.
  Tensor scores() const { return scores_; }
  void begin();  // before a step's first micro-batch
  // Returns the largest score of all heads.  Every rank calls it once its values are whole, after a
  // step's update.  pieces: the optimizer's, whose copies with more bits become smaller, too.
  double end(const ParamTable& table, std::span<const Optimizer::Piece> pieces);

 private:
  void clip(const Param& row, std::span<const Optimizer::Piece> pieces) const;
  // What a head's scores are to be multiplied by, of some of this rank's heads in a layer.
  double factor(std::int64_t layer, std::int64_t first_head, std::int64_t heads) const;
  // The largest of all ranks' numbers.
  double most_of_ranks(double own);

  QkClipOptions options_;
  const ModelConfig& model_;
  const World& world_;
  Stream& stream_;
  Buffer storage_;
  Tensor scores_, number_;            // [layers, heads of this rank], [1], f64
  std::vector<double> none_, found_;  // scores before a step, and what it found
};

}  // namespace mt
