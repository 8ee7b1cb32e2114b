// JoinedSource: a language model and a tower of images that become one LLaVA, or, of an InternViT,
// an InternVL: what Megatron-LM's examples/multimodal/combine_state_dicts.py makes of checkpoints,
// before the two are taught together.  The projector between them is drawn anew, from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "formats/model_source.h"

namespace mt {

struct JoinOptions {
  // The word that an image has in texts; empty: as such models have it.
  std::string image_token = {};
  // ImageTextConfig's vision_feature_layer; by default as the tower's kind is used.
  std::optional<std::int64_t> feature_layer = {};
  bool pixel_shuffle = false;  // of an InternViT in any case
  std::uint64_t seed = 0;
};

class JoinedSource : public ModelSource {
 public:
  // Exit::bad_config of a model that is no GPT with rotary positions, of a tower that is none, and
  // of an image's word that is no token.
  JoinedSource(std::unique_ptr<ModelSource> language, std::unique_ptr<ModelSource> tower,
               const JoinOptions& options);

  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override;
  void check_all_used(const ParamTable& table) const override;

 private:
  // Where a row of the joint model is read from; no source: it is drawn.
  struct Origin {
    const ModelSource* source = nullptr;
    const Param* row = nullptr;
  };
  Origin origin(const Param& row) const;
  void read_positions(const Param& stored, Tensor out) const;

  std::unique_ptr<ModelSource> language_, tower_;
  ParamTable language_rows_, tower_rows_;
  std::uint64_t seed_;
};

}  // namespace mt
