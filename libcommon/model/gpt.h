// Gpt: a decoder-only transformer language model (GPT-2, Llama) on one device, or one pipeline
// chunk of it: embedding on the first stage, blocks, final norm and LM head on the last.
//
// Its parameters carry Megatron-Core's names and torch_dist keys, and their names in Hugging Face's
// GPT-2 (if learned positions) or Llama (if rotary), with the rearrangement between the two.
#pragma once

#include <optional>
#include <vector>

#include "model/gpt_config.h"
#include "model/model.h"
#include "nn/block.h"
#include "nn/embedding.h"
#include "nn/lm_head.h"

namespace mt {

// Which blocks a stage holds, and whether it holds the ends.
struct StageRange {
  std::int64_t begin = 0, end = 0;  // layers
  bool first = true, last = true;
};

class Gpt : public Model {
 public:
  struct Saved : Model::Saved {
    Embedding::Saved embedding;
    std::vector<Block::Saved> blocks;
    Norm::Saved final_norm;
    LmHead::Saved head;
  };
  explicit Gpt(const GptConfig& config);                  // all of it
  Gpt(const GptConfig& config, const StageRange& range);  // a stage

  const GptConfig& config() const { return config_; }

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  void forward(Step& s, Wire& out, const Wire& in, const Batch& batch,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

  // Logits of the last of the Step's tokens, all in `layer`: [1, padded vocabulary].  Full model
  // only.
  Tensor next_token_logits(Step& s, ConstTensor ids) const;

 private:
  void add_embedding();
  void add_block(std::int64_t layer);
  void add_head();
  Tensor run_blocks(Step& s, Tensor x, Saved* saved) const;

  GptConfig config_;
  StageRange range_;
  Buffer inv_freq_storage_;
  ConstTensor inv_freq_;
  std::optional<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::optional<Norm> final_norm_;
  std::optional<LmHead> head_;
};

}  // namespace mt
