// Vit: Megatron's Vision Transformer (Dosovitskiy et al.: arXiv:2010.11929): patches of an image
// and tokens of classes before them, pre-norm layers whose tokens see all of their image, a final
// norm, and a head that tells the image's class by the first token; or no tokens of classes, and a
// head that paints each patch; or no head, and hidden states alone, as a tower that is a CLIP's or
// a SigLIP's; or the chunks of one of these that lie on one rank of a pipeline.
//
// The hidden states of a CLIP are those of its last layer: its final norm is of the first token
// alone, for a head that is not here.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "nn/patch_embedding.h"
#include "nn/sequence_head.h"
#include "nn/stack.h"

namespace mt {

struct ModelConfig;

// Reads ids, the place of each token in its image, pixels, rows and row_of: the rows are the first
// token of each image, or all tokens.  Losses are the criterion's.
class Vit : public Model {
 public:
  struct Saved : Model::Saved {
    PatchEmbedding::Saved embedding;
    Stack::Saved stack;
    Tensor y;  // of the stack
    Norm::Saved final_norm;
    SequenceHead::Saved head;
  };
  Vit(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  // Puts its rows into the table of another model.
  Vit(ParamTable& table, const ModelConfig& config, const StageRanges& ranges,
      const TensorPart& part);
  ~Vit() override;

  const ModelConfig& config() const override { return *config_; }

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  void add_rows(ParamTable& table, const StageRanges& ranges, const TensorPart& part);
  struct Chunk {
    StageRange range;
    Stack stack;
  };
  const Chunk& chunk(const Step& s) const { return chunks_.at(static_cast<std::size_t>(s.chunk)); }

  std::unique_ptr<const ModelConfig> config_;
  RowRange embedding_rows_, head_rows_;
  std::optional<PatchEmbedding> embedding_;
  std::vector<Chunk> chunks_;
  std::optional<Norm> final_norm_;
  std::optional<SequenceHead> head_;
};

}  // namespace mt
