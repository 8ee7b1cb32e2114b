// Llava: a GPT that reads images, too (Liu et al.: arXiv:2304.08485), as transformers'
// LlavaForConditionalGeneration and Megatron-Core's LLaVAModel: a tower, a ViT without a head,
// makes hidden states of an image's patches, a projector of two linear layers makes rows of the
// language model's width of these, and each stands in the place of a token of the text.
//   rows = W_2 gelu(W_1 norm(hidden) + b_1) + b_2
// An InternVL's hidden states are those of four neighbours of a tile, side by side; a LLaVA's are
// one patch's, and there is no norm.
// Tower and projector lie on the stage that has the embedding.  Where ranks share rows of hidden
// states, each has all of an image's, whose tokens no number of ranks need divide.  What of the
// tower is behind the layer whose hidden states are taken is there for checkpoints alone, and
// frozen.
#pragma once

#include <memory>
#include <optional>

#include "model/families/gpt.h"
#include "model/families/vit.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace mt {

// What the names of the rows of the tower's layers begin with.
inline constexpr std::string_view kTowerLayers = "vision_model.decoder";

// Where a row of a LLaVA stands in one of its parts: "decoder" without the part's name.
enum class LlavaPart : std::uint8_t { language, tower, projector };
LlavaPart llava_part(const RowPlace& place);
RowPlace place_in_part(const RowPlace& place);
// Whether nothing reads a row: it is of the tower, behind the layer whose hidden states are taken.
bool is_idle(const ModelConfig& llava, const RowPlace& place);

// Reads a GPT's fields and, where there are images, pixels of all tokens of their tiles
// (model/image_tiles.h), encoder_positions, the place of each of these in its tile, and image_rows;
// or image_hidden, which then are not made. Where pixels come without image_rows it makes the rows
// alone, Ends::hidden, of the Step's tokens, whose ids are their places.
class Llava final : public Model {
 public:
  struct Saved : Model::Saved {
    Tokens images;
    Vit::Saved tower;
    Tensor hidden, features, normed;  // of the tower; as the projector reads them; norm(features)
    Norm::Saved norm;
    Tensor h, a;  // W_1 normed + b_1, gelu(h)
    ConstTensor row_of;
    Gpt::Saved language;
  };
  Llava(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~Llava() override;

  const ModelConfig& config() const override { return *config_; }
  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  struct Projector {
    std::optional<Norm> norm;
    Linear fc1, fc2;
  };
  void add_tower(TensorPart part);
  Tensor make_rows(Step& s, const Tensor& pixels, const Tensor& places, Saved* saved) const;
  Tensor make_features(Step& s, const Tensor& hidden, const Saved* saved) const;
  void features_backward(Step& s, Tensor d_hidden, ConstTensor d_features) const;
  bool tower_learns() const;
  void make_rows_backward(Step& s, ConstTensor d_rows, const Saved& saved) const;

  std::unique_ptr<const ModelConfig> config_;
  std::unique_ptr<Gpt> language_;
  std::unique_ptr<Vit> tower_;  // on the first stage
  std::optional<Projector> projector_;
  RowRange projector_rows_;
};

}  // namespace mt
