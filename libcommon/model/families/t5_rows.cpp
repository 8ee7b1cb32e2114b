// T5 (Raffel et al. 2019, arXiv:1910.10683) as Megatron-Core's T5Model has it: an encoder and a
// decoder that are stacks of a GPT each, cross-attention in the decoder's layers, and an output
// layer of its own or, tied to the words, with a bias.
//
// Hugging Face's T5 is the same mathematics in other weights.  Megatron divides scores of attention
// by sqrt(d), T5 does not: its queries times sqrt(d) are Megatron's.  T5 1.0 divides the decoder's
// output by sqrt(h), Megatron does not: its final norm over sqrt(h) is Megatron's.  Both are exact
// where the square roots are powers of two.  The bias of a tied output layer is zero there.
#include <cmath>

#include "model/families/family_rows.h"

namespace mt {
namespace {

bool has(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

Gpt stack_of(const ModelConfig& c, std::int64_t layers, const TensorPart& part) {
  ModelConfig like = c;
  like.num_layers = layers;
  like.untie_embeddings_and_output_weights = false;  // the output layer is not a stack's
  if (c.position_embedding_type == "relative") like.position_embedding_type = "none";
  if (c.gated_gelu) like.swiglu = true;  // of which GeGLU has the matrices
  return gpt_of(like, part);
}

// Of queries: Megatron's are those of T5 times sqrt(d).
Rearrange as_query(const ModelConfig& c) {
  return scale(1 / std::sqrt(static_cast<double>(c.head_dim())));
}

// HF's names of a row of a stack; none of a bias or of positions, which T5 has not.
std::vector<ForeignName> t5_names(const Param& row, const ModelConfig& c, bool decoder) {
  const std::string stack = decoder ? "decoder." : "encoder.";
  if (row.name == "embedding.word_embeddings.weight") return {foreign("shared.weight")};
  if (!row.name.ends_with("weight") || has(row.name, "position_embeddings")) return {};
  if (has(row.name, "final_layernorm.")) {
    Transform transform;
    if (decoder && c.scale_decoder_outputs)
      transform.push_back(scale(std::sqrt(static_cast<double>(c.hidden_size))));
    return {foreign(stack + "final_layer_norm.weight", transform)};
  }
  const std::string layer = concat(stack, "block.", row.layer.value_or(0), ".layer.");
  const std::string self = layer + "0.", mlp = layer + (decoder ? "2." : "1.");
  const std::string attention = self + "SelfAttention.", dense = mlp + "DenseReluDense.";
  const std::int64_t d = c.head_dim(), f = c.ffn();
  if (has(row.name, "linear_qkv.layer_norm_")) return {foreign(self + "layer_norm.weight")};
  if (has(row.name, "linear_qkv."))
    return {foreign(attention + "q.weight", {pick_rows(3 * d, 0, d), as_query(c)}),
            foreign(attention + "k.weight", {pick_rows(3 * d, d, d)}),
            foreign(attention + "v.weight", {pick_rows(3 * d, 2 * d, d)})};
  if (has(row.name, "linear_proj.")) return {foreign(attention + "o.weight")};
  if (has(row.name, "linear_fc1.layer_norm_")) return {foreign(mlp + "layer_norm.weight")};
  if (has(row.name, "linear_fc2.")) return {foreign(dense + "wo.weight")};
  if (!has(row.name, "linear_fc1.")) return {};  // norms of heads
  if (row.segments.size() == 1) return {foreign(dense + "wi.weight")};
  return {foreign(dense + "wi_0.weight", {pick_rows(2 * f, 0, f)}),
          foreign(dense + "wi_1.weight", {pick_rows(2 * f, f, f)})};
}

// What stands between the attention and the MLP of a decoder's layer.
void add_cross_attention(ParamTable& table, const ModelConfig& c, std::int64_t layer) {
  const std::int64_t h = c.hidden_size, d = c.head_dim(), inner = c.num_attention_heads * d;
  const std::string hf = concat("decoder.block.", layer, ".layer.1."),
                    theirs = hf + "EncDecAttention.";
  const auto row = [&](const std::string& name, Shape shape, std::vector<Segment> segments,
                       std::vector<ForeignName> names) {
    return Param{.name = concat("decoder.layers.", layer, ".", name),
                 .shape = shape,
                 .init = {Initializer::Kind::normal, c.init_method_std},
                 .segments = std::move(segments),
                 .foreign = std::move(names),
                 .key = "decoder.layers." + name,
                 .layer = layer,
                 .layers = c.num_layers};
  };
  Norm(table, row("pre_cross_attn_layernorm.weight", {h}, {}, {foreign(hf + "layer_norm.weight")}),
       c.norm_kind(), c.norm_epsilon, c.apply_layernorm_1p);
  Linear(table,
         row("cross_attention.linear_q.weight", {inner, h}, {{"q", inner, 0, ShardAxis::tp, d}},
             {foreign(theirs + "q.weight", {as_query(c)})}),
         c.add_bias_linear);
  Linear(table,
         row("cross_attention.linear_kv.weight", {2 * inner, h},
             {{"kv", 2 * inner, 0, ShardAxis::tp, 2 * d}},
             {foreign(theirs + "k.weight", {pick_rows(2 * d, 0, d)}),
              foreign(theirs + "v.weight", {pick_rows(2 * d, d, d)})}),
         c.add_bias_linear);
  Linear(table,
         row("cross_attention.linear_proj.weight", {h, inner},
             {{"heads", inner, 1, ShardAxis::tp, d}}, {foreign(theirs + "o.weight")}),
         c.add_bias_linear);
}

// Of all layers of a stack.
void add_relative_positions(ParamTable& table, const ModelConfig& c, const std::string& stack) {
  table.add({.name = stack + "_relative_pos_emb.relative_attention_bias.weight",
             .shape = {c.relative_attention_num_buckets, c.num_attention_heads},
             .init = {Initializer::Kind::normal, c.init_method_std},
             .foreign = {foreign(
                 stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight")}});
}

void add_head(ParamTable& table, const ModelConfig& c) {
  const std::int64_t vocab = c.padded_vocab_size;
  const bool tied = !c.untie_embeddings_and_output_weights;
  table.add(
      {.name = tied ? "lm_head.output_layer.bias" : "lm_head.output_layer.weight",
       .shape = tied ? Shape{vocab} : Shape{vocab, c.hidden_size},
       .init = {tied ? Initializer::Kind::zeros : Initializer::Kind::normal, c.init_method_std},
       .segments = {{"vocab", vocab, 0, ShardAxis::tp}},
       .embedding_or_output = !tied,
       .foreign = {foreign(tied ? kZerosThere : "lm_head.weight")}});
}

}  // namespace

ParamTable t5_rows(const ModelConfig& c, const TensorPart& part) {
  ParamTable table;
  table.divide(part.rank, part.ranks);
  const Gpt encoder = stack_of(c, c.encoder_num_layers, part);
  const Gpt decoder = stack_of(c, c.num_layers, part);
  const auto add = [&](const Param& row, bool of_decoder) {
    Param own = described(row);
    if (!of_decoder)
      for (std::string* name : {&own.name, &own.key}) replace(*name, "decoder.", "encoder.");
    own.foreign = t5_names(row, c, of_decoder);
    table.add(std::move(own));
  };
  const auto is_embedding = [](const Param& row) { return row.name.starts_with("embedding."); };
  for (const Param& row : encoder.table().rows())
    if (is_embedding(row)) add(row, false);
  if (c.position_embedding_type == "relative")
    for (const char* stack : {"encoder", "decoder"}) add_relative_positions(table, c, stack);
  for (const Param& row : encoder.table().rows())
    if (!is_embedding(row)) add(row, false);
  for (const Param& row : decoder.table().rows()) {
    if (row.name.ends_with("linear_fc1.layer_norm_weight"))
      add_cross_attention(table, c, *row.layer);
    if (!is_embedding(row)) add(row, true);
  }
  add_head(table, c);
  return table;
}

}  // namespace mt
