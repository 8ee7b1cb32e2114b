// Mamba-2 in Megatron-Core's MambaModel, and its hybrids, of which Hugging Face's are nemotron_h:
// layers of attention and of an MLP are those of a GPT, without the other half.
#include <memory>

#include "model/families/family_rows.h"

namespace mt {
namespace {

// Dao, Gu (2024), arXiv:2405.21060: z gates, x is what is mixed, B and C map to states and back, dt
// is each head's step.
void add_mamba_layer(ParamTable& table, const ModelConfig& c, std::int64_t layer) {
  const std::int64_t h = c.hidden_size, inner = c.mamba_inner(), states = c.mamba_states(),
                     heads = c.mamba_num_heads;
  const std::string hf = concat("backbone.layers.", layer, ".");
  const auto cut = [](const char* name, std::int64_t extent, int dimension = 0) {
    return Segment{name, extent, dimension, ShardAxis::tp};
  };
  const auto add = [&](const std::string& name, Shape shape, std::vector<Segment> segments,
                       const std::string& theirs) {
    table.add({.name = concat("decoder.layers.", layer, ".mixer.", name),
               .shape = shape,
               .init = {Initializer::Kind::normal, c.init_method_std},
               .segments = std::move(segments),
               .foreign = {foreign(hf + (theirs.empty() ? "mixer." + name : theirs))}});
  };
  const std::vector<Segment> mixed = {cut("x", inner), cut("B", states), cut("C", states)};
  add("in_proj.layer_norm_weight", {h}, {}, "norm.weight");
  if (c.norm_kind() == NormKind::layer) add("in_proj.layer_norm_bias", {h}, {}, "norm.bias");
  add("in_proj.weight", {2 * inner + 2 * states + heads, h},
      {cut("z", inner), cut("x", inner), cut("B", states), cut("C", states), cut("dt", heads)}, "");
  add("conv1d.weight", {inner + 2 * states, 1, kMambaConv}, mixed, "");
  add("conv1d.bias", {inner + 2 * states}, mixed, "");
  for (const char* name : {"dt_bias", "A_log", "D"}) add(name, {heads}, {cut("heads", heads)}, "");
  add("norm.weight", {inner}, {cut("x", inner)}, "");
  add("out_proj.weight", {h, inner}, {cut("x", inner, 1)}, "");
}

// The rows of a GPT's layer that belong to its `half`, under keys of their own.
void add_half_layer(ParamTable& table, const ParamTable& gpt, std::int64_t layer,
                    const char* half) {
  for (const Param& row : gpt.rows()) {
    if (row.layer != layer || row.name.find(half) == std::string::npos) continue;
    Param own = described(row);
    own.key.clear();
    own.layer.reset();
    own.layers = 0;
    for (ForeignName& name : own.foreign)
      for (const auto& [from, to] : {std::pair("model.layers.", "backbone.layers."),
                                     {"input_layernorm.", "norm."},
                                     {"post_attention_layernorm.", "norm."},
                                     {"self_attn.", "mixer."},
                                     {"mlp.", "mixer."}})
        replace(name.name, from, to);
    table.add(std::move(own));
  }
}

}  // namespace

ParamTable mamba_rows(const ModelConfig& c, const TensorPart& part) {
  ParamTable table;
  table.divide(part.rank, part.ranks);
  const auto words = [&](const char* name, const char* theirs) {
    table.add({.name = name,
               .shape = {c.padded_vocab_size, c.hidden_size},
               .init = {Initializer::Kind::normal, c.init_method_std},
               .segments = {{"vocab", c.padded_vocab_size, 0, ShardAxis::tp}},
               .embedding_or_output = true,
               .foreign = {foreign(theirs)}});
  };
  words("embedding.word_embeddings.weight", "backbone.embeddings.weight");
  const bool positions = c.position_embedding_type == "learned_absolute";
  std::unique_ptr<const Gpt> gpt;
  if (positions || c.is_hybrid()) gpt.reset(new Gpt(gpt_of(c, part)));
  if (positions)
    for (const Param& row : gpt->table().rows())
      if (row.name == "embedding.position_embeddings.weight") table.add(described(row));
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
    const char kind = c.hybrid_pattern[static_cast<std::size_t>(layer)];
    if (kind == 'M')
      add_mamba_layer(table, c, layer);
    else
      add_half_layer(table, gpt->table(), layer, kind == '*' ? ".self_attention." : ".mlp.");
  }
  table.add({.name = "decoder.final_norm.weight",
             .shape = {c.hidden_size},
             .foreign = {foreign("backbone.norm_f.weight")}});
  if (c.norm_kind() == NormKind::layer)
    table.add({.name = "decoder.final_norm.bias",
               .shape = {c.hidden_size},
               .foreign = {foreign("backbone.norm_f.bias")}});
  if (c.untie_embeddings_and_output_weights) words("output_layer.weight", "lm_head.weight");
  return table;
}

}  // namespace mt
