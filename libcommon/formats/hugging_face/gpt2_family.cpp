#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "nn/mlp.h"

namespace mt {

void read_gpt2(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  // transformers takes the names that other families have for these, too, and before them.
  c.num_layers = json.size_or("num_hidden_layers", json.size_or("n_layer", 12));
  c.hidden_size = json.size_or("hidden_size", json.size_or("n_embd", 768));
  c.num_attention_heads = json.size_or("num_attention_heads", json.size_or("n_head", 12));
  c.max_position_embeddings =
      json.size_or("max_position_embeddings", json.size_or("n_positions", 1024));
  c.vocab_size = json.size_or("vocab_size", 50257);
  if (json.has("n_inner")) c.ffn_hidden_size = json.size("n_inner");
  c.norm_epsilon = json.real_or("layer_norm_epsilon", 1e-5);
  c.attention_dropout = json.real_or("attn_pdrop", kGpt2Dropout);
  c.hidden_dropout = json.real_or("resid_pdrop", kGpt2Dropout);
  note_embedding_dropout(json, "resid_pdrop", json.real_or("embd_pdrop", kGpt2Dropout), config);
  c.untie_embeddings_and_output_weights = !json.flag_or("tie_word_embeddings", true);
  const std::string_view activation = json.text_or("activation_function", "gelu_new");
  c.bias_gelu_fusion = is_tanh_gelu(activation);
  if (!c.bias_gelu_fusion && !is_erf_gelu(activation))
    json.expect_text("activation_function", "gelu");
  json.expect_causal();
  json.expect_flag("scale_attn_weights", true);
  json.expect_flag("scale_attn_by_inverse_layer_idx", false);
  json.expect_flag("add_cross_attention", false);
}

void check_gpt2(const ModelConfig& c) {
  if (c.swiglu || c.squared_relu) refuse_setting("learned positions without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse_setting("learned positions with norms that are not LayerNorm");
  if (!c.add_bias_linear) refuse_setting("learned positions without biases");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse_setting("learned positions with query groups or --kv-channels");
  if (!c.window_size.empty()) refuse_setting("learned positions with --window-size");
}

void write_gpt2(JsonWriter& json, const ModelConfig& c) {
  json.member("n_layer", c.num_layers).member("n_embd", c.hidden_size);
  json.member("n_head", c.num_attention_heads).member("n_inner", c.ffn());
  json.member("n_positions", c.max_position_embeddings);
  json.member("layer_norm_epsilon", c.norm_epsilon);
  json.member("attn_pdrop", c.attention_dropout).member("resid_pdrop", c.hidden_dropout);
  json.member("activation_function", c.activation() == Activation::gelu_tanh ? "gelu_new" : "gelu");
}

}  // namespace mt
