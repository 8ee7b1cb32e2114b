// T5: an encoder and a decoder (Raffel et al. 2019, arXiv:1910.10683) as Megatron-Core's T5Model
// has them, on one device, or the chunks of them that lie on one rank of a pipeline.  Both stacks
// are of a GPT's layers, with one table of words; the encoder's tokens see each other, and the
// decoder's layers attend to what the encoder makes, its memory, too.  Positions are learned, in
// one table for both, rotary, or relative: a bias in every self-attention, from a table for each
// stack. The output layer is its own or, tied to the words, has a bias.
//
// In a generation, what the encoder makes of a sequence's text is in the cache once it was read: in
// later passes there are no encoder_ids.
//
// One pipeline goes over both stacks: a stage may have the end of one and the beginning of the
// other.  Rows that several stages use lie on each; the first of them stores them (Param::shared).
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

class T5 : public Model {
 public:
  struct Saved : Model::Saved {
    Tokens encoder_tokens;
    Embedding::Saved encoder_embedding, embedding;
    Stack::Saved encoder, decoder;
    Tensor encoder_y, y;  // of the stacks
    Norm::Saved encoder_norm, final_norm;
    ConstTensor memory;
    LmHead::Saved head;
  };
  T5(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~T5() override;

  const ModelConfig& config() const override { return *config_; }

  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  struct Chunk {
    StageRange range;
    Stack encoder, decoder;
    std::vector<RowRange> completes = {};  // tables that no chunk before it of this rank uses
  };
  const Chunk& chunk(const Step& s) const { return chunks_.at(static_cast<std::size_t>(s.chunk)); }
  // What a stage has of the two stacks.
  bool encodes(const StageRange& r) const { return r.begin < encoders_; }
  bool ends_encoder(const StageRange& r) const { return encodes(r) && r.end >= encoders_; }
  bool begins_decoder(const StageRange& r) const {
    return r.begin <= encoders_ && r.end > encoders_;
  }
  // Whether a memory crosses the boundary between stages that has so many layers in front of it.
  bool passes_memory(std::int64_t at) const { return at >= encoders_ && at < layers_; }

  void add_shared_tables(const StageRanges& ranges);
  Stack stack_of(const StageRange& range, std::int64_t begin, std::int64_t end,
                 const std::optional<RelativeBias>& bias);
  void find_completed();
  Tensor encode(Step& s, Wire& out, const Wire& in, const Fields& batch, Saved* saved) const;
  void decode(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
              Saved* saved) const;
  Tensor decode_backward(Step& s, Wire& din, const Wire& dout, const Saved& saved) const;
  void encode_backward(Step& s, Wire& din, const Wire& dout, ConstTensor d_memory,
                       const Saved& saved) const;

  std::unique_ptr<const ModelConfig> config_;
  TensorPart part_;
  std::int64_t encoders_ = 0, layers_ = 0;  // of the encoder, of both
  Buffer rotary_storage_;
  Rotary rotary_;
  RowRange embedding_rows_, encoder_norm_rows_, head_rows_, relative_rows_[2];
  const Param* words_ = nullptr;
  std::optional<RelativeBias> relative_[2];  // of the encoder, of the decoder
  std::optional<Embedding> embedding_;
  std::vector<Chunk> chunks_;
  std::optional<Norm> encoder_norm_, final_norm_;
  std::optional<LmHead> head_;
};

}  // namespace mt
