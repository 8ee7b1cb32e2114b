// The rows in front of a model's layers and behind them: embeddings, final norms and heads.
#include "model/layers/layer_rows.h"

namespace mt {

const Param& declare_words(const ModelRows& rows, bool shared, bool copy) {
  const Shape shape{rows.config.padded_vocab_size, rows.config.hidden_size};
  return rows.table.add(
      {.place = {.stack = "embedding", .module = "word_embeddings", .param = "weight"},
       .shape = shape,
       .init = matrix_init(rows.config, shape),
       .segments = {{"vocab", rows.config.padded_vocab_size, 0, ShardAxis::tp}},
       .shared = shared,
       .copy = copy,
       .embedding_or_output = true});
}

const Param& declare_positions(const ModelRows& rows) {
  const Shape shape{rows.config.max_position_embeddings, rows.config.hidden_size};
  return rows.table.add(
      {.place = {.stack = "embedding", .module = "position_embeddings", .param = "weight"},
       .shape = shape,
       .init = matrix_init(rows.config, shape),
       .summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none});
}

Norm make_final_norm(const ModelRows& rows, std::string_view stack) {
  return rows.make_norm(
      rows.norm_row({.stack = stack, .module = "final_layernorm", .param = "weight"}));
}

const Param& declare_output(const ModelRows& rows) {
  const Shape shape{rows.config.padded_vocab_size, rows.config.hidden_size};
  return rows.table.add({.place = {.stack = "output_layer", .param = "weight"},
                         .shape = shape,
                         .init = matrix_init(rows.config, shape),
                         .segments = {{"vocab", rows.config.padded_vocab_size, 0, ShardAxis::tp}},
                         .embedding_or_output = true,
                         .gradient_replaced = true});
}

const Param& declare_types(const ModelRows& rows) {
  const Shape shape{2, rows.config.hidden_size};
  return rows.table.add(
      {.place = {.stack = "embedding", .module = "tokentype_embeddings", .param = "weight"},
       .shape = shape,
       .init = matrix_init(rows.config, shape),
       .summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none});
}

// Each rank computes all rows that heads are asked of: no gradient but the output layer's is a
// part.
BertHeads make_bert_heads(const ModelRows& rows, const Param& output) {
  const ModelConfig& c = rows.config;
  const std::int64_t h = c.hidden_size, vocab = c.padded_vocab_size;
  const auto linear = [&](RowPlace place, std::int64_t out) {
    place.param = "weight";
    return Linear(rows.table,
                  {.place = std::move(place), .shape = {out, h}, .init = matrix_init(c, {out, h})},
                  true);
  };
  const Linear dense = linear({.stack = "lm_head", .module = "dense"}, h);
  Param scale = rows.norm_row({.stack = "lm_head", .module = "layer_norm", .param = "weight"});
  scale.summed_over = SummedOver::none;
  const Norm norm = rows.make_norm(std::move(scale));
  const Param& bias = rows.table.add({.place = {.stack = "output_layer", .param = "bias"},
                                      .shape = {vocab},
                                      .segments = {{"vocab", vocab, 0, ShardAxis::tp}}});
  std::optional<BertHeads::Order> order;
  if (c.bert_binary_head) {
    const Linear classes = linear({.stack = "binary_head"}, 2);
    order = {linear({.stack = "pooler", .module = "dense"}, h), classes};
  }
  return {dense, norm, LmHead(output, c.vocab_size, c.label_smoothing, &bias), order};
}

const Param& declare_t5_head(const ModelRows& rows) {
  const std::int64_t vocab = rows.config.padded_vocab_size;
  const bool tied = !rows.config.untie_embeddings_and_output_weights;
  return rows.table.add({.place = {.stack = "lm_head",
                                   .module = "output_layer",
                                   .param = tied ? "bias" : "weight",
                                   .also = "output_layer"},
                         .shape = tied ? Shape{vocab} : Shape{vocab, rows.config.hidden_size},
                         .init = {tied ? Initializer::Kind::zeros : Initializer::Kind::normal,
                                  rows.config.init_method_std},
                         .segments = {{"vocab", vocab, 0, ShardAxis::tp}},
                         .embedding_or_output = !tied,
                         .gradient_replaced = !tied});
}

}  // namespace mt
