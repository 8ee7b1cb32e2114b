// Tower: a BERT without heads that makes a vector of a text: the hidden state of its first token,
// [CLS], behind the final norm, or a projection of that.  Texts are of one type of token
// (Megatron-LM core_v0.12.1, megatron/legacy/model/biencoder_model.py: PretrainedBertModel).
#pragma once

#include <optional>
#include <string_view>

#include "model/layers/layer_rows.h"
#include "nn/embedding.h"
#include "nn/stack.h"

namespace mt {

// What the names of its rows begin with.
struct TowerNames {
  std::string_view embedding, encoder, projection;
};
inline constexpr TowerNames kQueryTower = {"query_model.embedding", "query_model.encoder",
                                           "query_model.projection_enc"},
                            kContextTower = {"context_model.embedding", "context_model.encoder",
                                             "context_model.projection_enc"},
                            kSharedTower = {"shared_model.embedding", "shared_model.encoder",
                                            "shared_model.projection_enc"};

// Where a row of a tower stands in a BERT: "embedding" and "encoder" without the tower's name;
// empty for the projection, and for what is no tower's.
std::optional<RowPlace> bert_place(const RowPlace& place);

class Tower {
 public:
  // ids, types: [tokens] i32; rows, row_of: the first token of each text, as of pick_rows().
  struct Texts {
    ConstTensor ids = {}, types = {}, rows = {}, row_of = {};
  };
  struct Saved {
    Embedding::Saved embedding;
    Stack::Saved stack;
    ConstTensor row_of;
    Tensor picked, normed;  // [texts, hidden_size], before the final norm and behind it
    Norm::Saved norm;
  };
  // `layers`: of all the model's, those that are this tower's.
  Tower(const ModelRows& rows, const TowerNames& names, const StageRange& layers,
        const Rotary& rotary);

  // The Step's tokens are the texts'.  out, d_out: [texts, embedding_width].
  void forward(Step& s, Tensor out, const Texts& texts, Saved* saved) const;
  void backward(Step& s, ConstTensor d_out, const Saved& saved) const;

 private:
  std::int64_t hidden_;
  RowRange embedding_rows_, end_rows_;
  std::optional<Embedding> embedding_;
  std::optional<Stack> stack_;
  std::optional<Norm> norm_;
  std::optional<Linear> projection_;
};

}  // namespace mt
