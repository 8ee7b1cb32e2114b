#include "formats/hugging_face/layer_norm_families.h"

#include <algorithm>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/layer_norm_table.h"
#include "formats/hugging_face/rope_config.h"
#include "nn/mlp.h"

namespace mt {
namespace {

const LayerNormFamily* find_layer_norm_family(std::string_view type) {
  const auto* const found = std::ranges::find(kLayerNormFamilies, type, &LayerNormFamily::type);
  return found == std::end(kLayerNormFamilies) ? nullptr : found;
}

void read_hidden_dropout(const ConfigJson& json, const LayerNormFamily& usual,
                         HuggingFaceConfig& config) {
  double& hidden = config.model.hidden_dropout;
  hidden = usual.hidden_dropout ? json.real_or(usual.hidden_dropout, usual.dropout) : 0;
  const bool alike = usual.type == "gpt_neox" || usual.type == "biogpt";
  const double embeddings = usual.embedding_dropout
                                ? json.real_or(usual.embedding_dropout, usual.dropout)
                            : alike ? hidden
                                    : 0;
  if (usual.hidden_dropout) note_embedding_dropout(json, usual.hidden_dropout, embeddings, config);
}

// Once it is known whether linear layers have biases.
void read_activation(const ConfigJson& json, const LayerNormFamily& usual, ModelConfig& c) {
  const std::string_view name = usual.activation
                                    ? json.text_or(usual.activation, usual.usual_activation)
                                    : usual.usual_activation;
  if (c.swiglu) {
    if (!is_silu(name)) json.expect_text(usual.activation, "silu");
    return;
  }
  c.relu = name == "relu";
  c.squared_relu = name == "relu2";
  c.bias_gelu_fusion = is_tanh_gelu(name);
  c.tanh_gelu = c.bias_gelu_fusion && !c.add_bias_linear;
  if (!c.relu && !c.squared_relu && !is_erf_gelu(name) && !c.bias_gelu_fusion)
    json.refuse(json_quoted(usual.activation), " is ", json_quoted(name),
                ", expected gelu, gelu_new, relu or relu2");
}

std::string_view activation_name(const ModelConfig& c, const LayerNormFamily& usual) {
  switch (c.activation()) {
    case Activation::swiglu:
      return "silu";
    case Activation::relu:
      return "relu";
    case Activation::squared_relu:
      return "relu2";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::gelu_tanh:
      return is_tanh_gelu(usual.usual_activation) ? usual.usual_activation : "gelu_new";
    default:
      refuse_setting("LayerNorms with this activation");
  }
}

}  // namespace

void note_embedding_dropout(const ConfigJson& json, const char* hidden_dropout, double embeddings,
                            HuggingFaceConfig& config) {
  const double hidden = config.model.hidden_dropout;
  if (embeddings != hidden)
    config.notes.push_back(concat(json.where(), ": ", json_quoted(hidden_dropout), " is ", hidden,
                                  ", at which training drops embeddings, too; transformers drops "
                                  "these at ",
                                  embeddings));
}

void write_embedding_dropout(JsonWriter& json, const ModelConfig& c, const char* name,
                             const JsonObject* original, double usual) {
  json.member(name, !original             ? c.hidden_dropout
                    : original->has(name) ? original->real(name)
                                          : usual);
}

bool is_layer_norm_family(std::string_view type) { return find_layer_norm_family(type) != nullptr; }

std::string_view layer_norm_architecture(std::string_view type) {
  return find_layer_norm_family(type)->architecture;
}

const char* layer_norm_epsilon_name(std::string_view type) {
  const LayerNormFamily* const family = find_layer_norm_family(type);
  return family ? family->epsilon : nullptr;
}

std::string layer_norm_types() {
  std::string types;
  for (const LayerNormFamily& family : kLayerNormFamilies)
    types += concat(types.empty() ? "" : ", ", family.type);
  return types;
}

void read_layer_norm_family(const ConfigJson& json, HuggingFaceConfig& config) {
  const LayerNormFamily& usual = *find_layer_norm_family(json.model_type());
  ModelConfig& c = config.model;
  json.expect_causal();
  c.hf_model_type = usual.type;
  c.vocab_size = json.size_or("vocab_size", usual.vocab_size);
  c.num_layers = json.size_or(usual.layers, usual.num_layers);
  c.hidden_size = json.size_or(usual.hidden, usual.hidden_size);
  c.num_attention_heads = json.size_or(usual.heads, usual.num_heads);
  const std::int64_t ffn = usual.ffn_size > 0 ? usual.ffn_size : 4 * c.hidden_size;
  c.ffn_hidden_size = usual.ffn ? json.size_or(usual.ffn, ffn) : ffn;
  c.max_position_embeddings = json.size_or(usual.positions, usual.num_positions);
  c.norm_epsilon = usual.epsilon ? json.real_or(usual.epsilon, 1e-5) : 1e-5;
  c.init_method_std = json.real_or(usual.init_std, usual.init);
  c.attention_dropout =
      usual.attention_dropout ? json.real_or(usual.attention_dropout, usual.dropout_of_scores) : 0;
  read_hidden_dropout(json, usual, config);
  c.untie_embeddings_and_output_weights = !json.flag_or("tie_word_embeddings", usual.tied);
  c.position_embedding_type = "rope";
  const bool as_heads = !usual.kv_heads || usual.num_kv_heads == 0 || json.is_null(usual.kv_heads);
  const std::int64_t groups = as_heads ? c.num_attention_heads : usual.num_kv_heads;
  c.num_query_groups = usual.kv_heads ? json.size_or(usual.kv_heads, groups) : groups;
  usual.own.read(json, c);
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  read_activation(json, usual, c);
  if (usual.rope) read_rope(json, config, 10000);
}

void write_layer_norm_family(JsonWriter& json, const ModelConfig& c, std::string_view type,
                             const JsonObject* original) {
  const LayerNormFamily& usual = *find_layer_norm_family(type);
  json.member(usual.layers, c.num_layers).member(usual.hidden, c.hidden_size);
  json.member(usual.heads, c.num_attention_heads);
  if (usual.kv_heads) json.member(usual.kv_heads, c.kv_heads());
  if (usual.ffn) json.member(usual.ffn, c.ffn());
  json.member(usual.positions, c.max_position_embeddings);
  if (usual.epsilon) json.member(usual.epsilon, c.norm_epsilon);
  if (usual.activation) json.member(usual.activation, activation_name(c, usual));
  if (usual.attention_dropout) json.member(usual.attention_dropout, c.attention_dropout);
  if (usual.hidden_dropout) json.member(usual.hidden_dropout, c.hidden_dropout);
  if (usual.embedding_dropout)
    write_embedding_dropout(json, c, usual.embedding_dropout, original, usual.dropout);
  if (std::string_view(usual.init_std) != "initializer_range")
    json.member(usual.init_std, c.init_method_std);
  usual.own.write(json, c);
  if (!usual.rope) return;
  write_rope(json, c, {});
  if (c.rotary_percent == 1 && turning_part(type).value_or(1) != 1)
    json.member("partial_rotary_factor", 1.0);
}

}  // namespace mt
