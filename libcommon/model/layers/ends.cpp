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
       .reads_blocks = true,
       .embedding_or_output = true});
}

const Param& declare_positions(const ModelRows& rows) {
  const Shape shape{rows.config.first_position + rows.config.max_position_embeddings,
                    rows.config.hidden_size};
  return rows.table.add(
      {.place = {.stack = "embedding", .module = "position_embeddings", .param = "weight"},
       .shape = shape,
       .init = matrix_init(rows.config, shape),
       .summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none});
}

Norm make_final_norm(const ModelRows& rows, std::string_view stack) {
  const char* const module =
      rows.config.family == ModelFamily::mamba ? "final_norm" : "final_layernorm";
  return rows.make_norm(rows.norm_row({.stack = stack, .module = module, .param = "weight"}));
}

const Param& declare_output(const ModelRows& rows) {
  const Shape shape{rows.config.padded_vocab_size, rows.config.hidden_size};
  return rows.table.add({.place = {.stack = "output_layer", .param = "weight"},
                         .shape = shape,
                         .init = matrix_init(rows.config, shape),
                         .segments = {{"vocab", rows.config.padded_vocab_size, 0, ShardAxis::tp}},
                         .reads_blocks = true,
                         .embedding_or_output = true,
                         .gradient_replaced = true});
}

const Param& declare_output_bias(const ModelRows& rows) {
  const std::int64_t vocab = rows.config.padded_vocab_size;
  return rows.table.add({.place = {.stack = "output_layer", .param = "bias"},
                         .shape = {vocab},
                         .segments = {{"vocab", vocab, 0, ShardAxis::tp}}});
}

const Param& declare_types(const ModelRows& rows) {
  const Shape shape{rows.config.token_types(), rows.config.hidden_size};
  return rows.table.add(
      {.place = {.stack = "embedding", .module = "tokentype_embeddings", .param = "weight"},
       .shape = shape,
       .init = matrix_init(rows.config, shape),
       .summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none});
}

// A linear module of a head that reads some rows, all of which each rank computes: no gradient but
// the output layer's is a part.
static Linear make_head_linear(const ModelRows& rows, RowPlace place, std::int64_t out,
                               bool bias = true) {
  const Shape shape{out, rows.config.hidden_size};
  place.param = "weight";
  return {rows.table,
          {.place = std::move(place), .shape = shape, .init = matrix_init(rows.config, shape)},
          bias};
}

Linear make_pooler(const ModelRows& rows) {
  return make_head_linear(rows, {.stack = "pooler", .module = "dense"}, rows.config.hidden_size);
}

BertHeads make_bert_heads(const ModelRows& rows, const Param& output) {
  const ModelConfig& c = rows.config;
  const std::int64_t h = c.hidden_size;
  const Linear dense = make_head_linear(rows, {.stack = "lm_head", .module = "dense"}, h);
  Param scale = rows.norm_row({.stack = "lm_head", .module = "layer_norm", .param = "weight"});
  scale.summed_over = SummedOver::none;
  const Norm norm = rows.make_norm(std::move(scale));
  const Param& bias = declare_output_bias(rows);
  std::optional<BertHeads::Order> order;
  if (c.bert_binary_head) {
    const Linear classes = make_head_linear(rows, {.stack = "binary_head"}, 2);
    order = {make_pooler(rows), classes};
  }
  return {dense, norm, LmHead(output, c.vocab_size, c.label_smoothing, &bias), order};
}

SequenceHead make_task_head(const ModelRows& rows) {
  const ModelConfig& c = rows.config;
  const bool bert = c.family == ModelFamily::bert;
  const std::string_view stack =
      bert ? c.task_head == kMultichoiceHead ? kMultichoiceHead : kClassificationHead
           : kScoreHead;  // constants: a place keeps views
  std::optional<Linear> pooler;
  if (bert) pooler = make_pooler(rows);
  return {pooler, make_head_linear(rows, {.stack = stack}, c.num_labels, bert),
          bert ? c.hidden_dropout : 0};
}

// It begins with zeros, so that it says nothing before it has learnt.
ValueHead make_value_head(const ModelRows& rows) {
  Param values{.place = {.stack = kValueHead, .param = "weight"},
               .shape = {1, rows.config.hidden_size},
               .init = {Initializer::Kind::zeros},
               .summed_over = rows.part.sequence_parallel ? SummedOver::tp : SummedOver::none};
  return ValueHead(Linear(rows.table, std::move(values), false));
}

Linear make_projection(const ModelRows& rows, std::string_view stack, std::int64_t width) {
  return make_head_linear(rows, {.stack = stack}, width);
}

// A published T5 has no bias, and learns none, so that it can become one of theirs again.
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
                         .trainable = !tied || !rows.config.scale_decoder_outputs,
                         .embedding_or_output = !tied,
                         .gradient_replaced = !tied});
}

}  // namespace mt
