// Mamba-2 in Megatron-Core's MambaModel.
#include "model/family_rows.h"

namespace mt {
namespace {

// Dao, Gu (2024), arXiv:2405.21060: z gates, x is what is mixed, B and C map to states and back, dt
// is each head's step.
void add_mamba_layer(ParamTable& table, const ModelConfig& c, std::int64_t layer) {
  const std::int64_t h = c.hidden_size, inner = c.mamba_inner(), states = c.mamba_states(),
                     heads = c.num_attention_heads;
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
  add("in_proj.weight", {2 * inner + 2 * states + heads, h},
      {cut("z", inner), cut("x", inner), cut("B", states), cut("C", states), cut("dt", heads)}, "");
  add("conv1d.weight", {inner + 2 * states, 1, kMambaConv}, mixed, "");
  add("conv1d.bias", {inner + 2 * states}, mixed, "");
  for (const char* name : {"dt_bias", "A_log", "D"}) add(name, {heads}, {cut("heads", heads)}, "");
  add("norm.weight", {inner}, {cut("x", inner)}, "");
  add("out_proj.weight", {h, inner}, {cut("x", inner, 1)}, "");
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
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) add_mamba_layer(table, c, layer);
  table.add({.name = "decoder.final_norm.weight",
             .shape = {c.hidden_size},
             .foreign = {foreign("backbone.norm_f.weight")}});
  if (c.untie_embeddings_and_output_weights) words("output_layer.weight", "lm_head.weight");
  return table;
}

}  // namespace mt
