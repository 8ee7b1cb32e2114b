// Biencoder: two towers, one that makes vectors of queries and one of contexts, or one for both
// (Megatron-LM core_v0.12.1, megatron/legacy/model/biencoder_model.py).  It learns that a query's
// own context has the largest product with it of all in a batch (nn/in_batch_retrieval.h).  All of
// it lies on one rank.
#pragma once

#include <memory>
#include <optional>

#include "model/families/tower.h"
#include "model/model.h"
#include "nn/in_batch_retrieval.h"

namespace mt {

// Reads ids and lengths of the queries, encoder_ids and encoder_lengths of the contexts, of which
// each query may bring several, its own first; their positions; and types, rows and row_of, the
// first tokens, of either.  Ends::loss and hits are of the queries; logits
// are each query's vector and those of its contexts, [queries, (1 + contexts) embedding_width].
// Where vectors alone are wanted it reads ids and types of the Step's tokens.
class Biencoder final : public Model {
 public:
  struct Saved : Model::Saved {
    Tokens queries, contexts;
    Tower::Saved of_queries, of_contexts;
    InBatchRetrieval::Saved retrieval;
  };
  Biencoder(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~Biencoder() override;

  const ModelConfig& config() const override { return *config_; }
  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  const Tower& query() const { return *query_; }
  const Tower& context() const { return context_ ? *context_ : *query_; }

  std::unique_ptr<const ModelConfig> config_;
  Buffer rotary_storage_;
  Rotary rotary_;
  std::optional<Tower> query_, context_;  // one: shared
};

}  // namespace mt
