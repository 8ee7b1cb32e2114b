#include "model/model_rows.h"

#include <charconv>

#include "model/gpt_checkpoint.h"
#include "model/hugging_face_source.h"

namespace mt {
namespace {

// A row as it is before a table has cut it.
Param described(const Param& row) {
  Param copy = row;
  copy.local = {};
  copy.dimension = 0;
  copy.cuts.clear();
  return copy;
}

ForeignName foreign(std::string name, Transform transform = {}) {
  return {kHuggingFaceFormat, std::move(name), std::move(transform)};
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos)
    text.replace(at, from.size(), to);
}

Gpt gpt_of(const GptConfig& config, const TensorPart& part) {
  return Gpt(config, {{.begin = 0, .end = config.num_layers}}, part);
}

// --- Mixtral ------------------------------------------------------------------------------------

// Of Llama's MLP only the norm is left.
void add_experts(ParamTable& table, const ModelConfig& c, std::int64_t layer) {
  const std::int64_t h = c.hidden_size, f = c.ffn();
  const std::string hf = concat("model.layers.", layer, ".block_sparse_moe.");
  const auto add = [&](const std::string& name, const std::string& key, Shape shape,
                       std::vector<Segment> segments, std::vector<ForeignName> names) {
    table.add({.name = concat("decoder.layers.", layer, ".mlp.", name),
               .shape = shape,
               .init = {Initializer::Kind::normal, c.init_method_std},
               .segments = std::move(segments),
               .foreign = std::move(names),
               .key = "decoder.layers.mlp." + key,
               .layer = layer,
               .layers = c.num_layers});
  };
  add("router.weight", "router.weight", {c.num_experts, h}, {}, {foreign(hf + "gate.weight")});
  for (std::int64_t e = 0; e < c.num_experts; ++e) {
    const std::string own = concat("experts.local_experts.", e, "."), key = "experts.experts.";
    const std::string theirs = concat(hf, "experts.", e, ".");
    add(own + "linear_fc1.weight", key + "linear_fc1.weight", {2 * f, h},
        {{"gate", f, 0, ShardAxis::tp}, {"up", f, 0, ShardAxis::tp}},
        {foreign(theirs + "w1.weight", {pick_rows(2 * f, 0, f)}),
         foreign(theirs + "w3.weight", {pick_rows(2 * f, f, f)})});
    add(own + "linear_fc2.weight", key + "linear_fc2.weight", {h, f}, {{"up", f, 1, ShardAxis::tp}},
        {foreign(theirs + "w2.weight")});
  }
}

ParamTable mixtral_rows(const ModelConfig& c, const TensorPart& part) {
  const Gpt dense = gpt_of(c, part);
  ParamTable table;
  table.divide(part.rank, part.ranks);
  for (const Param& row : dense.table().rows()) {
    if (row.name.ends_with("mlp.linear_fc1.weight")) {
      add_experts(table, c, *row.layer);
    } else if (!row.name.ends_with("mlp.linear_fc2.weight")) {
      Param own = described(row);
      for (std::string* name : {&own.name, &own.key})
        replace(*name, "mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.");
      table.add(std::move(own));
    }
  }
  return table;
}

// --- BERT ---------------------------------------------------------------------------------------

// HF's names of a row of Gpt's, of which weights and biases end alike.
std::vector<ForeignName> bert_names(const Param& row, const ModelConfig& c) {
  const std::string layer =
      row.layer ? concat("bert.encoder.layer.", *row.layer, ".") : std::string();
  const std::string end = row.name.ends_with("bias") ? "bias" : "weight";
  const std::int64_t d = c.head_dim();
  if (row.name.find(".linear_qkv.weight") != std::string::npos ||
      row.name.find(".linear_qkv.bias") != std::string::npos) {
    const std::string self = layer + "attention.self.";
    return {foreign(self + "query." + end, {pick_rows(3 * d, 0, d)}),
            foreign(self + "key." + end, {pick_rows(3 * d, d, d)}),
            foreign(self + "value." + end, {pick_rows(3 * d, 2 * d, d)})};
  }
  for (const auto& [own, theirs] :
       {std::pair("linear_qkv.layer_norm_", "attention.ln."),
        {"linear_fc1.layer_norm_", "ln."},
        {"linear_proj.", "attention.output.dense."},
        {"linear_fc1.", "intermediate.dense."},
        {"linear_fc2.", "output.dense."},
        {"final_layernorm.", "bert.encoder.ln."},
        {"word_embeddings.", "bert.embeddings.word_embeddings."},
        {"position_embeddings.", "bert.embeddings.position_embeddings."}})
    if (row.name.find(own) != std::string::npos) return {foreign(layer + theirs + end)};
  fail(Exit::internal, row.name, ": no row of a BERT");
}

ParamTable bert_rows(const ModelConfig& c, const TensorPart& part) {
  const Gpt gpt = gpt_of(c, part);
  ParamTable table;
  table.divide(part.rank, part.ranks);
  const std::int64_t h = c.hidden_size;
  const auto add = [&](const char* name, Shape shape, const char* theirs,
                       std::vector<Segment> segments = {}) {
    table.add({.name = name,
               .shape = shape,
               .init = {Initializer::Kind::normal, c.init_method_std},
               .segments = std::move(segments),
               .foreign = {foreign(theirs)}});
  };
  for (const Param& row : gpt.table().rows()) {
    Param own = described(row);
    for (std::string* name : {&own.name, &own.key}) replace(*name, "decoder.", "encoder.");
    own.foreign = bert_names(row, c);
    table.add(std::move(own));
    if (row.name == "embedding.position_embeddings.weight")
      add("embedding.tokentype_embeddings.weight", {2, h},
          "bert.embeddings.token_type_embeddings.weight");
  }
  const std::string transform = "cls.predictions.transform.";
  add("lm_head.dense.weight", {h, h}, (transform + "dense.weight").c_str());
  add("lm_head.dense.bias", {h}, (transform + "dense.bias").c_str());
  add("lm_head.layer_norm.weight", {h}, (transform + "LayerNorm.weight").c_str());
  add("lm_head.layer_norm.bias", {h}, (transform + "LayerNorm.bias").c_str());
  add("output_layer.bias", {c.padded_vocab_size}, "cls.predictions.bias",
      {{"vocab", c.padded_vocab_size, 0, ShardAxis::tp}});
  add("pooler.dense.weight", {h, h}, "bert.pooler.dense.weight");
  add("pooler.dense.bias", {h}, "bert.pooler.dense.bias");
  add("binary_head.weight", {2, h}, "cls.seq_relationship.weight");
  add("binary_head.bias", {2}, "cls.seq_relationship.bias");
  return table;
}

// --- Mamba-2 ------------------------------------------------------------------------------------

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

}  // namespace

ParamTable model_rows(const ModelConfig& config, const TensorPart& part) {
  switch (config.family) {
    case ModelFamily::mixtral:
      return mixtral_rows(config, part);
    case ModelFamily::bert:
      return bert_rows(config, part);
    case ModelFamily::mamba:
      return mamba_rows(config, part);
    case ModelFamily::gpt:
    case ModelFamily::gemma:
      break;
  }
  GptConfig like = config;
  if (config.family == ModelFamily::gemma) like.swiglu = true;  // GeGLU has the same matrices
  Gpt gpt = gpt_of(like, part);
  return std::move(gpt.table());
}

// --- Names --------------------------------------------------------------------------------------

constexpr std::string_view kLayers = ".layers.";

constexpr std::string_view kExperts = ".local_experts.";

// The number behind `word`; -1 where there is none.
static std::int64_t number_behind(std::string_view word, const std::string& name) {
  const std::size_t at = name.find(word);
  std::int64_t number = -1;
  if (at != std::string::npos)
    std::from_chars(name.data() + at + word.size(), name.data() + name.size(), number);
  return number;
}

static std::string with_number(std::string_view word, const std::string& name,
                               std::int64_t number) {
  const std::size_t begin = name.find(word) + word.size();
  return concat(name.substr(0, begin), number, name.substr(name.find('.', begin)));
}

std::int64_t layer_in(const std::string& name) { return number_behind(kLayers, name); }
std::int64_t expert_in(const std::string& name) { return number_behind(kExperts, name); }

std::string with_layer(const std::string& name, std::int64_t layer) {
  return with_number(kLayers, name, layer);
}

std::string with_expert(const std::string& name, std::int64_t expert) {
  return with_number(kExperts, name, expert);
}

// --- Keys ---------------------------------------------------------------------------------------

static Shape offset_at(std::initializer_list<std::int64_t> front, const Shape& shape,
                       std::int64_t row) {
  std::vector<std::int64_t> extents(front);
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(axis == 0 ? row : 0);
  return Shape(std::span<const std::int64_t>(extents));
}

std::vector<KeyPart> key_parts(const Param& row, const ModelConfig& config) {
  const std::int64_t rows = row.shape[0];
  if (const std::int64_t expert = expert_in(row.name); expert >= 0)
    return {{row.key, row.shape.with_front(config.num_experts).with_front(row.layers),
             offset_at({*row.layer, expert}, row.shape, 0), 0, rows}};
  if (row.layer)
    return {{row.key, row.key_shape(), offset_at({*row.layer}, row.shape, 0), 0, rows}};
  if (row.segments.size() == 1) return {{row.key, row.shape, offset_at({}, row.shape, 0), 0, rows}};
  std::vector<KeyPart> parts;
  std::int64_t begin = 0;
  for (const Segment& segment : row.segments) {
    std::vector<std::int64_t> extents(row.shape.extents().begin(), row.shape.extents().end());
    extents[0] = segment.extent;
    parts.push_back({concat(row.key, ".", segment.name),
                     Shape(std::span<const std::int64_t>(extents)), origin_of(row.shape.rank()),
                     begin, begin + segment.extent});
    begin += segment.extent;
  }
  return parts;
}

// --- Extra states -------------------------------------------------------------------------------

void write_model_extra_states(DistWriter& writer, const ModelConfig& c) {
  if (c.family == ModelFamily::gpt || c.family == ModelFamily::gemma)
    return write_extra_states(writer, c);
  const auto none = PyValue::list({PyValue()});
  const auto add = [&](const std::string& module, const std::string& shard) {
    writer.add_object(concat(module, "._extra_state/shard_", shard), none);
  };
  const bool mamba = c.family == ModelFamily::mamba, bert = c.family == ModelFamily::bert;
  const std::string layers = bert ? "encoder.layers." : "decoder.layers.";
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
    if (mamba) {
      for (const char* module : {"in_proj", "out_proj"})
        add(concat(layers, layer, ".mixer.", module), "0_1");
      continue;
    }
    const std::string shard = concat(layer, "_", c.num_layers);
    for (const char* module : {"linear_qkv", "linear_proj", "core_attention"})
      add(concat(layers, "self_attention.", module), shard);
    for (const char* module : {"linear_fc1", "linear_fc2"}) {
      if (bert) add(concat(layers, "mlp.", module), shard);
      for (std::int64_t expert = 0; expert < c.num_experts; ++expert)
        add(concat(layers, "mlp.experts.experts.", module),
            concat(layer, ".", expert, "_", c.num_layers, ".", c.num_experts));
    }
    if (!bert) add(layers + "pre_mlp_layernorm", shard);
  }
  add(mamba  ? "decoder.final_norm"
      : bert ? "encoder.final_layernorm"
             : "decoder.final_layernorm",
      "0_1");
  if (mamba || bert) add("output_layer", "0_1");
}

}  // namespace mt
