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

// --- Of models that are converted ---------------------------------------------------------------

static Initializer drawn(const ModelRows& rows) {
  return {Initializer::Kind::normal, rows.config.init_method_std};
}

void declare_segment_types(const ModelRows& rows) {
  rows.table.add(
      {.place = {.stack = "embedding", .module = "tokentype_embeddings", .param = "weight"},
       .shape = {2, rows.config.hidden_size},
       .init = drawn(rows)});
}

void declare_bert_heads(const ModelRows& rows) {
  const std::int64_t h = rows.config.hidden_size, vocab = rows.config.padded_vocab_size;
  const auto add = [&](RowPlace place, const Shape& shape, std::vector<Segment> segments = {}) {
    rows.table.add({.place = std::move(place),
                    .shape = shape,
                    .init = drawn(rows),
                    .segments = std::move(segments)});
  };
  add({.stack = "lm_head", .module = "dense", .param = "weight"}, {h, h});
  add({.stack = "lm_head", .module = "dense", .param = "bias"}, {h});
  add({.stack = "lm_head", .module = "layer_norm", .param = "weight"}, {h});
  add({.stack = "lm_head", .module = "layer_norm", .param = "bias"}, {h});
  add({.stack = "output_layer", .param = "bias"}, {vocab}, {{"vocab", vocab, 0, ShardAxis::tp}});
  add({.stack = "binary_head", .param = "weight"}, {2, h});
  add({.stack = "binary_head", .param = "bias"}, {2});
  add({.stack = "pooler", .module = "dense", .param = "weight"}, {h, h});
  add({.stack = "pooler", .module = "dense", .param = "bias"}, {h});
}

void declare_t5_head(const ModelRows& rows) {
  const std::int64_t vocab = rows.config.padded_vocab_size;
  const bool tied = !rows.config.untie_embeddings_and_output_weights;
  rows.table.add(
      {.place = {.stack = "lm_head", .module = "output_layer", .param = tied ? "bias" : "weight"},
       .shape = tied ? Shape{vocab} : Shape{vocab, rows.config.hidden_size},
       .init = {tied ? Initializer::Kind::zeros : Initializer::Kind::normal,
                rows.config.init_method_std},
       .segments = {{"vocab", vocab, 0, ShardAxis::tp}},
       .embedding_or_output = !tied});
}

}  // namespace mt
