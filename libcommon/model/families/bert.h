// Bert: Megatron's BERT, or the first one: embeddings of words, positions and types of tokens,
// pre-norm layers whose tokens see all of their own text (of the first BERT what they add is added
// to what the norm makes), a final norm, and heads for masked words and for the order of
// two texts (nn/bert_heads.h), or a task's head (nn/sequence_head.h); or the chunks of it that lie
// on one rank of a pipeline.  With tied embeddings the last stage has a copy of the first one's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "nn/bert_heads.h"
#include "nn/embedding.h"
#include "nn/sequence_head.h"
#include "nn/stack.h"

namespace mt {

struct ModelConfig;

// Reads ids, types, positions, first_key (a sequence may have several texts; padding is one, too),
// rows, row_of and targets.  Ends::loss and its weight are of the rows, those that are asked of the
// order, as many as there are orders, behind the others.  With a task's head the rows are one token
// of each sequence, and losses are the criterion's.  Where Ends::rows say of which tokens something
// is asked, these fields are not read.
class Bert : public Model {
 public:
  struct Saved : Model::Saved {
    Embedding::Saved embedding;
    Stack::Saved stack;
    Tensor y;  // of the stack
    Norm::Saved final_norm;
    BertHeads::Saved heads;
    SequenceHead::Saved task;
  };
  Bert(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~Bert() override;

  const ModelConfig& config() const override { return *config_; }

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  void add_embedding(bool is_shared);
  void add_heads();
  void answer(Step& s, const Ends& ends, ConstTensor x) const;
  Tensor types_of(Step& s, Tensor given, const void* saved) const;
  void check_words() const;  // Exit::bad_config where it has no head for them
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
  std::optional<Embedding> embedding_;
  std::vector<Chunk> chunks_;
  std::optional<Norm> final_norm_;
  std::optional<Linear> pooler_;    // of no head
  std::optional<BertHeads> heads_;  // or
  std::optional<SequenceHead> task_;
};

}  // namespace mt
