// Retro: a GPT whose layers attend to neighbours, texts that were retrieved for each chunk of a
// sequence (Borgeaud et al.: arXiv:2112.04426), as Megatron-Core's RetroModel has them
// (core_v0.12.1, megatron/core/models/retro), on one device, or the chunks of it that lie on one
// rank of a pipeline.  Field::encoder_ids are the neighbours' tokens, [sequences, chunks,
// neighbours, retrieved_length].  The words' embeddings and the learned positions are the GPT's.
// Without these tokens the retriever is off, as Megatron-LM's is with --retro-attention-gate 0: the
// layers are a GPT's.
//
// Megatron adds what the encoder's first cross-attention makes to its norm's output, which this
// model does, too (model/layers/retro.cpp).  It has no norm behind the layers, which this one has
// with retro_final_layernorm.
//
// Between stages travels, as the memory, what neighbours are embedded as, until the layer that
// encodes them, and then what they are encoded as, until the last layer that retrieves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "nn/embedding.h"
#include "nn/lm_head.h"
#include "nn/stack.h"

namespace mt {

struct ModelConfig;

// Whether a row is of what encodes neighbours or attends to them.
bool is_of_neighbors(const RowPlace& place);

class Retro : public Model {
 public:
  struct Saved : Model::Saved {
    Embedding::Saved embedding, neighbours_embedding;
    Neighbours neighbours;
    Stack::Saved stack;
    Tensor y;  // of the stack
    Norm::Saved final_norm;
    LmHead::Saved head;
  };
  Retro(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~Retro() override;

  const ModelConfig& config() const override { return *config_; }

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  struct Chunk {
    StageRange range;
    Stack stack;
  };
  const Chunk& chunk(const Step& s) const { return chunks_.at(static_cast<std::size_t>(s.chunk)); }
  // What a stage has of the layers that retrieve, whose first encodes.
  bool encodes(const StageRange& r) const { return r.begin <= encoding_ && encoding_ < r.end; }
  bool reads(const StageRange& r) const { return r.begin <= last_reading_; }
  // Whether neighbours cross the boundary between stages that has so many layers in front of it.
  bool passes(std::int64_t at) const { return at <= last_reading_; }
  Neighbours neighbours_of(Step& s, const Wire& in, const Fields& batch, Saved* saved) const;

  std::unique_ptr<const ModelConfig> config_;
  TensorPart part_;
  std::int64_t encoding_ = 0, last_reading_ = 0;  // layers
  Buffer rotary_storage_;
  Rotary rotary_;
  RowRange embedding_rows_, head_rows_;
  std::optional<Embedding> embedding_;
  std::vector<Chunk> chunks_;
  std::optional<Norm> final_norm_;
  std::optional<LmHead> head_;
};

}  // namespace mt
