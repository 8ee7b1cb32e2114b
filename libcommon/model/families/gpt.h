// Gpt: a decoder-only transformer language model (GPT-2, Llama) on one device, or the chunks of it
// that lie on one rank of a pipeline: embedding on the first stage, layers, final norm and LM head,
// or a task's (nn/sequence_head.h), on the last, as are layers that predict further tokens
// (nn/further_tokens.h).  With these, and with tied embeddings, the last stage has a copy of the
// first one's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "nn/embedding.h"
#include "nn/further_tokens.h"
#include "nn/lm_head.h"
#include "nn/sequence_head.h"
#include "nn/stack.h"
#include "nn/value_head.h"

namespace mt {

struct ModelConfig;

class Gpt : public Model {
 public:
  struct Saved : Model::Saved {
    Embedding::Saved embedding;
    Stack::Saved stack;
    Tensor y;  // of the stack
    Norm::Saved final_norm;
    LmHead::Saved head;
    FurtherTokens::Saved further;
    SequenceHead::Saved task;
    ValueHead::Saved value;
  };
  explicit Gpt(const ModelConfig& config);  // all of it
  Gpt(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  // Puts its rows into the table of another model.
  Gpt(ParamTable& table, const ModelConfig& config, const StageRanges& ranges,
      const TensorPart& part);

  ~Gpt() override;

  const ModelConfig& config() const override { return *config_; }
  const LmHead* head() const { return head_ ? &*head_ : nullptr; }  // on the last stage

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  void add_rows(ParamTable& table, const StageRanges& ranges);
  void add_embedding(ParamTable& table, bool is_shared, bool is_copy = false);
  void add_head(ParamTable& table);
  struct Chunk {
    StageRange range;
    Stack stack;
  };
  const Chunk& chunk(const Step& s) const { return chunks_.at(static_cast<std::size_t>(s.chunk)); }

  std::unique_ptr<const ModelConfig> config_;
  TensorPart part_;
  Buffer rotary_storage_;
  Rotary rotary_;
  RowRange embedding_rows_, head_rows_;
  bool copies_words_ = false;  // the embedding is another stage's
  std::optional<Embedding> embedding_;
  std::vector<Chunk> chunks_;
  std::optional<Norm> final_norm_;
  std::optional<FurtherTokens> further_;
  std::optional<LmHead> head_;  // or
  std::optional<SequenceHead> task_;
  std::optional<ValueHead> value_;  // beside a head of words
};

}  // namespace mt
