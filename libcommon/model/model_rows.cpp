#include "model/model_rows.h"

#include <charconv>
#include <cstring>

#include "model/families/family_rows.h"
#include "model/gpt_checkpoint.h"

namespace mt {
namespace {

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
  add("binary_head.weight", {2, h}, "cls.seq_relationship.weight");
  add("binary_head.bias", {2}, "cls.seq_relationship.bias");
  add("pooler.dense.weight", {h, h}, "bert.pooler.dense.weight");
  add("pooler.dense.bias", {h}, "bert.pooler.dense.bias");
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
    case ModelFamily::t5:
      return t5_rows(config, part);
    case ModelFamily::gpt:
    case ModelFamily::gemma:
      break;
  }
  ModelConfig like = config;
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

bool is_relative_position(const Param& row) {
  return row.name.find("_relative_pos_emb.") != std::string::npos;
}

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

constexpr const char* kT5Head = "lm_head.output_layer.";

std::vector<KeyPart> key_parts(const Param& row, const ModelConfig& config,
                               const std::string& state) {
  const std::int64_t rows = row.shape[0];
  if (const std::int64_t expert = expert_in(row.name); expert >= 0)
    return {{row.key, row.shape.with_front(config.num_experts).with_front(row.layers),
             offset_at({*row.layer, expert}, row.shape, 0), 0, rows, 2}};
  if (row.layer)
    return {{row.key, row.key_shape(), offset_at({*row.layer}, row.shape, 0), 0, rows, 1}};
  const auto whole = [&](const std::string& key) {
    return KeyPart{key, row.shape, offset_at({}, row.shape, 0), 0, rows};
  };
  if (row.name.starts_with(kT5Head)) {  // T5Model has it under both names
    const KeyPart last = whole(row.key.substr(std::strlen("lm_head.")));
    if (!state.empty()) return {last};
    return {whole(row.key), last};
  }
  const bool by_segments = row.segments.size() > 1 && row.name.find(".mixer.") != std::string::npos;
  if (!by_segments) return {whole(row.key)};
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

Shape KeyPart::chunk() const {
  Shape shape(whole.extents().subspan(static_cast<std::size_t>(stacked)));
  while (shape.rank() < whole.rank()) shape = shape.with_front(1);
  return shape;
}

KeyPart reformulated(const KeyPart& part, const Param& row) {
  const bool whole = part.end - part.begin == row.shape[0];
  const auto blocks = whole ? std::ssize(row.segments) : 1;
  const auto with_elements = [&](const Shape& shape, std::int64_t first, std::int64_t other,
                                 std::int64_t last) {
    std::vector<std::int64_t> extents(shape.extents().begin(),
                                      shape.extents().begin() + part.stacked);
    extents.push_back(first);
    extents.insert(extents.end(), static_cast<std::size_t>(row.shape.rank() - 1), other);
    extents.push_back(last);
    return Shape(std::span<const std::int64_t>(extents));
  };
  const std::int64_t elements = row.shape.numel() / row.shape[0] * (part.end - part.begin);
  return {part.key,
          with_elements(part.whole, blocks, 1, elements / blocks),
          with_elements(part.offset, 0, 0, 0),
          part.begin,
          part.end,
          part.stacked};
}

// --- Extra states -------------------------------------------------------------------------------

namespace {

class ExtraStates {
 public:
  explicit ExtraStates(DistWriter& writer) : writer_(writer) {}

  void add(const std::string& module, const std::string& shard = "0_1") {
    writer_.add_object(concat(module, "._extra_state/shard_", shard), none_);
  }

  // Of each of a stack's layers, "decoder." say.
  void add_layers(const std::string& stack, std::int64_t layers,
                  std::initializer_list<const char*> modules) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (const char* module : modules)
        add(concat(stack, "layers.", module), concat(layer, "_", layers));
  }

  void add_mamba(const ModelConfig& c) {
    using Modules = std::vector<const char*>;
    for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
      const char kind = c.hybrid_pattern[static_cast<std::size_t>(layer)];
      for (const char* module : kind == 'M'   ? Modules{"mixer.in_proj", "mixer.out_proj"}
                                : kind == '*' ? Modules{kQkv, kProj, kCore}
                                              : Modules{"mlp.linear_fc1", "mlp.linear_fc2"})
        add(concat("decoder.layers.", layer, ".", module));
    }
    for (const char* module : {"decoder.final_norm", "output_layer"}) add(module);
  }

  void add_bert(const ModelConfig& c) {
    add_attention_and_mlp("encoder.", c.num_layers);
    for (const char* module : {"encoder.final_layernorm", "output_layer"}) add(module);
  }

  void add_t5(const ModelConfig& c) {
    add_attention_and_mlp("encoder.", c.encoder_num_layers);
    add_attention_and_mlp("decoder.", c.num_layers);
    add_layers("decoder.", c.num_layers,
               {"pre_cross_attn_layernorm", "cross_attention.linear_q", "cross_attention.linear_kv",
                "cross_attention.linear_proj", "cross_attention.core_attention"});
    for (const char* module : {"encoder.final_layernorm", "decoder.final_layernorm",
                               "lm_head.output_layer", "output_layer"})
      add(module);
  }

  void add_mixtral(const ModelConfig& c) {
    add_layers("decoder.", c.num_layers, {kQkv, kProj, kCore, "pre_mlp_layernorm"});
    for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
      for (const char* module : {"linear_fc1", "linear_fc2"})
        for (std::int64_t expert = 0; expert < c.num_experts; ++expert)
          add(concat("decoder.layers.mlp.experts.experts.", module),
              concat(layer, ".", expert, "_", c.num_layers, ".", c.num_experts));
    add("decoder.final_layernorm");
  }

 private:
  static constexpr const char *kQkv = "self_attention.linear_qkv",
                              *kProj = "self_attention.linear_proj",
                              *kCore = "self_attention.core_attention";

  void add_attention_and_mlp(const std::string& stack, std::int64_t layers) {
    add_layers(stack, layers, {kQkv, kProj, kCore, "mlp.linear_fc1", "mlp.linear_fc2"});
  }

  DistWriter& writer_;
  const PyValue none_ = PyValue::list({PyValue()});
};

}  // namespace

void write_model_extra_states(DistWriter& writer, const ModelConfig& config) {
  ExtraStates states(writer);
  switch (config.family) {
    case ModelFamily::gpt:
    case ModelFamily::gemma:
      return write_extra_states(writer, config);
    case ModelFamily::mixtral:
      return states.add_mixtral(config);
    case ModelFamily::bert:
      return states.add_bert(config);
    case ModelFamily::mamba:
      return states.add_mamba(config);
    case ModelFamily::t5:
      return states.add_t5(config);
  }
}

}  // namespace mt
