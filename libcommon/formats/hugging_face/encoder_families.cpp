#include <algorithm>

#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "nn/mlp.h"

namespace mt {

// --- Megatron's BERT ----------------------------------------------------------------------------

void read_bert(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::bert;
  c.num_layers = json.size_or("num_hidden_layers", 24);
  c.hidden_size = json.size_or("hidden_size", 1024);
  c.num_attention_heads = json.size_or("num_attention_heads", 16);
  c.ffn_hidden_size = json.size_or("intermediate_size", 4096);
  c.max_position_embeddings = json.size_or("max_position_embeddings", 512);
  c.vocab_size = json.size_or("vocab_size", 29056);
  c.norm_epsilon = json.real_or("layer_norm_eps", 1e-12);
  c.attention_dropout = json.real_or("attention_probs_dropout_prob", 0.1);
  c.hidden_dropout = json.real_or("hidden_dropout_prob", 0.1);
  if (!is_erf_gelu(json.text_or("hidden_act", "gelu")))
    json.expect_text("hidden_act", "gelu");  // Megatron's head knows no other
  c.bias_gelu_fusion = false;
  json.expect_flag("tie_word_embeddings", true);
  json.expect_flag("is_decoder", false);
  json.expect_flag("add_cross_attention", false);
  json.expect_number("type_vocab_size", 2);
}

// --- The first BERT, and RoBERTa ----------------------------------------------------------------

namespace {

struct PostNormBert {
  std::string_view type, name;  // model_type, and what names of its classes begin with
  std::int64_t vocab_size = 30522, num_layers = 12;
  bool roberta = false;  // its positions begin behind the padding's
  bool types = true;     // of tokens; without them no pooler
  const char *layers = "num_hidden_layers", *hidden = "hidden_size", *heads = "num_attention_heads",
             *ffn = "intermediate_size", *dropout = "hidden_dropout_prob",
             *attention_dropout = "attention_probs_dropout_prob", *activation = "hidden_act";
};
constexpr PostNormBert kPostNormBerts[] = {
    {.type = "bert", .name = "Bert"},
    {.type = "roberta", .name = "Roberta", .vocab_size = 50265, .roberta = true},
    {.type = "xlm-roberta", .name = "XLMRoberta", .roberta = true},
    {.type = "camembert", .name = "Camembert", .roberta = true},
    {.type = "distilbert",
     .name = "DistilBert",
     .num_layers = 6,
     .types = false,
     .layers = "n_layers",
     .hidden = "dim",
     .heads = "n_heads",
     .ffn = "hidden_dim",
     .dropout = "dropout",
     .attention_dropout = "attention_dropout",
     .activation = "activation"}};

const PostNormBert& post_norm_bert(std::string_view type) {
  return *std::ranges::find(kPostNormBerts, type, &PostNormBert::type);
}

}  // namespace

bool is_post_norm_bert(std::string_view type) {
  return std::ranges::find(kPostNormBerts, type, &PostNormBert::type) != std::end(kPostNormBerts);
}

std::string post_norm_bert_types() {
  std::string types;
  for (const PostNormBert& bert : kPostNormBerts)
    types += concat(types.empty() ? "" : ", ", bert.type);
  return types;
}

std::string_view post_norm_bert_class(std::string_view type) { return post_norm_bert(type).name; }

std::string_view post_norm_bert_type(const ModelConfig& c) {
  return !c.hf_model_type.empty() ? std::string_view(c.hf_model_type)
         : c.first_position > 0   ? "roberta"
                                  : "bert";
}

void read_post_norm_bert(const ConfigJson& json, HuggingFaceConfig& config) {
  const PostNormBert& usual = post_norm_bert(json.model_type());
  ModelConfig& c = config.model;
  c.family = ModelFamily::bert;
  c.hf_model_type = usual.type;
  c.residual_of_norm = true;
  c.num_layers = json.size_or(usual.layers, usual.num_layers);
  c.hidden_size = json.size_or(usual.hidden, 768);
  c.num_attention_heads = json.size_or(usual.heads, 12);
  c.ffn_hidden_size = json.size_or(usual.ffn, 3072);
  c.vocab_size = json.size_or("vocab_size", usual.vocab_size);
  c.norm_epsilon = usual.types ? json.real_or("layer_norm_eps", 1e-12) : 1e-12;
  c.attention_dropout = json.real_or(usual.attention_dropout, 0.1);
  c.hidden_dropout = json.real_or(usual.dropout, 0.1);
  if (usual.roberta) c.first_position = json.size_or("pad_token_id", 1) + 1;
  c.max_position_embeddings = json.size_or("max_position_embeddings", 512) - c.first_position;
  if (c.max_position_embeddings < 1)
    json.refuse("\"max_position_embeddings\" leaves none behind the padding's");
  if (!is_erf_gelu(json.text_or(usual.activation, "gelu")))
    json.expect_text(usual.activation, "gelu");
  c.bias_gelu_fusion = false;
  c.num_token_types = usual.types ? json.count_or("type_vocab_size", 2) : 0;
  json.expect_text("position_embedding_type", "absolute");
  json.expect_flag("tie_word_embeddings", true);
  json.expect_flag("is_decoder", false);
  json.expect_flag("add_cross_attention", false);
}

void check_post_norm_bert(const ModelConfig& c) {
  if (c.activation() != Activation::gelu_erf || c.normalization != "LayerNorm" ||
      c.apply_layernorm_1p || c.qk_layernorm || !c.norm_bias || !c.norm_weight ||
      c.position_embedding_type != "learned_absolute" || !c.add_bias_linear || !c.attention_bias ||
      c.untie_embeddings_and_output_weights || c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse_setting("--residual-of-norm with others than BERT's layers");
  if ((c.token_types() == 0) == post_norm_bert(post_norm_bert_type(c)).types)
    refuse_setting("--residual-of-norm with other types of tokens");
}

void write_post_norm_bert(JsonWriter& json, const ModelConfig& c) {
  const PostNormBert& usual = post_norm_bert(post_norm_bert_type(c));
  json.member(usual.layers, c.num_layers).member(usual.hidden, c.hidden_size);
  json.member(usual.heads, c.num_attention_heads).member(usual.ffn, c.ffn());
  json.member("max_position_embeddings", c.max_position_embeddings + c.first_position);
  if (usual.types)
    json.member("type_vocab_size", c.token_types()).member("layer_norm_eps", c.norm_epsilon);
  json.member(usual.attention_dropout, c.attention_dropout);
  json.member(usual.dropout, c.hidden_dropout).member(usual.activation, "gelu");
}

void check_bert(const ModelConfig& c) {
  if (!c.bert_binary_head) refuse_setting("BERT without a binary head and types of tokens");
  if (c.activation() == Activation::gelu_tanh)
    refuse_setting(
        "BERT without --no-bias-gelu-fusion, which has one GeLU in its layers and another in its "
        "head");
  if (c.activation() != Activation::gelu_erf) refuse_setting("BERT without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse_setting("BERT with norms that are not LayerNorm");
  if (c.position_embedding_type != "learned_absolute")
    refuse_setting("BERT without learned positions");
  if (!c.add_bias_linear) refuse_setting("BERT without biases");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse_setting("BERT with query groups or --kv-channels");
}

void write_bert(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("intermediate_size", c.ffn());
  json.member("max_position_embeddings", c.max_position_embeddings).member("type_vocab_size", 2);
  json.member("layer_norm_eps", c.norm_epsilon);
  json.member("attention_probs_dropout_prob", c.attention_dropout);
  json.member("hidden_dropout_prob", c.hidden_dropout);
  json.member("hidden_act", "gelu");
}

// --- T5 -----------------------------------------------------------------------------------------

// What follows from the kind of MLP may stand beside it, and would count instead.
static void check_t5_activation(const ConfigJson& json, const ModelConfig& c,
                                std::string_view kind) {
  json.expect_flag("is_gated_act", kind.starts_with("gated-"));
  if (!json.has("dense_act_fn")) return;
  const std::string_view name = json.text("dense_act_fn");
  const bool same = c.relu         ? name == "relu"
                    : c.gated_gelu ? is_tanh_gelu(name)
                    : c.swiglu     ? is_silu(name)
                                   : is_erf_gelu(name);
  if (!same)
    json.refuse("\"dense_act_fn\" is ", json_quoted(name),
                ", which is not that of \"feed_forward_proj\" ", json_quoted(kind));
}

static void read_t5_mlp(const ConfigJson& json, ModelConfig& c) {
  const std::string_view kind = json.text_or("feed_forward_proj", "relu");
  c.relu = kind == "relu";
  c.gated_gelu = kind == "gated-gelu";
  c.swiglu = kind == "gated-silu" || kind == "gated-swish";
  c.bias_gelu_fusion = false;
  if (!c.relu && !c.gated_gelu && !c.swiglu) json.expect_text("feed_forward_proj", "gelu");
  check_t5_activation(json, c, kind);
}

// Megatron and T5 differ in whether they divide by a square root, for which weights make up.
static void check_square_root(const ConfigJson& json, const char* name, std::int64_t value,
                              const char* what) {
  if (!is_power_of_four(value))
    json.refuse(json_quoted(name), " is ", value, ", and ", what,
                " differ between T5 and Megatron by its square root, which is no power of "
                "two: weights would be rounded");
}

void read_t5(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::t5;
  c.encoder_num_layers = json.size_or("num_layers", 6);
  c.num_layers = json.size_or("num_decoder_layers", c.encoder_num_layers);
  c.hidden_size = json.size_or("d_model", 512);
  c.num_attention_heads = json.size_or("num_heads", 8);
  c.kv_channels = json.size_or("d_kv", 64);
  c.ffn_hidden_size = json.size_or("d_ff", 2048);
  c.vocab_size = json.size_or("vocab_size", 32128);
  c.max_position_embeddings = json.has("n_positions") ? json.size("n_positions") : kMostSize;
  c.position_embedding_type = "relative";
  if (json.has("relative_attention_num_buckets"))
    c.relative_attention_num_buckets = json.size("relative_attention_num_buckets");
  if (json.has("relative_attention_max_distance"))
    c.relative_attention_max_distance = json.size("relative_attention_max_distance");
  c.normalization = "RMSNorm";
  c.add_bias_linear = false;
  c.norm_epsilon = json.real_or("layer_norm_epsilon", 1e-6);
  c.attention_dropout = c.hidden_dropout = json.real_or("dropout_rate", 0.1);
  json.expect_flag("is_encoder_decoder", true);
  read_t5_mlp(json, c);
  const bool tied = json.flag_or("tie_word_embeddings", true);
  c.untie_embeddings_and_output_weights = !tied;
  c.scale_decoder_outputs = json.flag_or("scale_decoder_outputs", tied);
  check_square_root(json, "d_kv", *c.kv_channels, "scores of attention");
  if (c.scale_decoder_outputs)
    check_square_root(json, "d_model", c.hidden_size, "the decoder's output");
}

void check_t5(const ModelConfig& c) {
  if (c.position_embedding_type != "relative")
    refuse_setting("T5 without --position-embedding-type relative");
  if (c.normalization != "RMSNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse_setting("T5 with norms that are not plain RMSNorm");
  if (c.has_qkv_bias()) refuse_setting("T5 with biases");
  if (c.squared_relu) refuse_setting("T5 with --squared-relu");
  if (!is_power_of_four(c.head_dim()) ||
      (c.scale_decoder_outputs && !is_power_of_four(c.hidden_size)))
    refuse_setting("T5 of sizes whose square roots are no powers of two, and weights not rounded");
}

void write_t5(JsonWriter& json, const ModelConfig& c) {
  const bool tied = !c.untie_embeddings_and_output_weights;
  json.member("num_layers", c.encoder_num_layers).member("num_decoder_layers", c.num_layers);
  json.member("d_model", c.hidden_size).member("num_heads", c.num_attention_heads);
  json.member("d_kv", c.head_dim()).member("d_ff", c.ffn());
  if (c.max_position_embeddings != kMostSize) json.member("n_positions", c.max_position_embeddings);
  json.member("relative_attention_num_buckets", c.relative_attention_num_buckets);
  json.member("relative_attention_max_distance", c.relative_attention_max_distance);
  json.member("feed_forward_proj", c.relu         ? "relu"
                                   : c.gated_gelu ? "gated-gelu"
                                   : c.swiglu     ? "gated-silu"
                                                  : "gelu");
  json.member("layer_norm_epsilon", c.norm_epsilon).member("dropout_rate", c.hidden_dropout);
  json.member("is_encoder_decoder", true);
  if (c.scale_decoder_outputs != tied)
    json.member("scale_decoder_outputs", c.scale_decoder_outputs);
}

}  // namespace mt
