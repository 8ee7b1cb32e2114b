#include "formats/hugging_face/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/allowance.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "base/json_place.h"
#include "formats/hugging_face/dense_families.h"
#include "formats/hugging_face/rope_scaling.h"
#include "formats/names/hugging_face.h"
#include "model/config/ranges.h"

namespace mt {

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

// --- Reading ------------------------------------------------------------------------------------

namespace {

// What a class of transformers' takes where config.json says nothing.
struct Defaults {
  std::string_view type;
  std::int64_t vocab_size, layers, hidden_size, heads, kv_heads, head_dim, ffn, positions;
  double epsilon = 1e-6, theta = 10000, init = 0.02;
  std::string_view activation = "silu";
  bool tied = false;
};
// kv_heads 0: as many as heads; head_dim 0: hidden_size / heads.
constexpr Defaults kDefaults[] = {
    {"llama", 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"mistral", 32000, 32, 4096, 32, 8, 0, 14336, 131072},
    {"mixtral", 32000, 32, 4096, 32, 8, 0, 14336, 131072, 1e-5, 1e6},
    {"gemma", 256000, 28, 3072, 16, 16, 256, 24576, 8192, 1e-6, 10000, 0.02, "gelu_pytorch_tanh",
     true},
    {"gemma2", 256000, 26, 2304, 8, 4, 256, 9216, 8192, 1e-6, 10000, 0.02, "gelu_pytorch_tanh",
     true},
    {"gemma3_text", 262208, 26, 2304, 8, 4, 256, 9216, 131072, 1e-6, 1e6, 0.02, "gelu_pytorch_tanh",
     true},
    {"olmo2", 50304, 32, 4096, 32, 0, 0, 11008, 2048, 1e-5},
    {"phi3", 32064, 32, 3072, 32, 0, 0, 8192, 4096, 1e-5},
    {"granite", 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"smollm3", 128256, 36, 2048, 16, 4, 0, 11008, 32768, 1e-6, 2e6, 0.02, "silu", true},
    {"cohere", 256000, 40, 8192, 64, 0, 0, 22528, 8192, 1e-5, 500000, 0.02, "silu", true},
    {"cohere2", 256000, 40, 8192, 64, 0, 0, 22528, 8192, 1e-5, 10000, 0.02, "silu", true},
    {"qwen2", 151936, 32, 4096, 32, 32, 0, 22016, 32768},
    {"qwen3", 151936, 32, 4096, 32, 32, 128, 22016, 32768},
    {"qwen2_moe", 151936, 24, 2048, 16, 16, 0, 5632, 32768},
    {"qwen3_moe", 151936, 24, 2048, 32, 4, 0, 6144, 32768},
    {"glm4_moe", 151552, 46, 4096, 96, 8, 0, 10944, 131072, 1e-5},
    {"nemotron", 256000, 32, 6144, 48, 0, 0, 24576, 4096, 1e-5, 10000, 0.0134, "relu2"},
};

std::string types_with_defaults() {
  std::string types;
  for (const Defaults& usual : kDefaults) types += concat(types.empty() ? "" : ", ", usual.type);
  return types;
}

// The names that transformers has for what are three activations.
bool is_erf_gelu(std::string_view name) { return name == "gelu" || name == "gelu_python"; }
bool is_tanh_gelu(std::string_view name) {
  return name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_python_tanh" ||
         name == "gelu_fast" || name == "gelu_accurate";
}
bool is_silu(std::string_view name) { return name == "silu" || name == "swish"; }

class ConfigReader {
 public:
  explicit ConfigReader(const JsonObject& object)
      : object_(object), type_(object.text("model_type")) {}

  HuggingFaceConfig read() {
    read_model();
    return {.model = model_, .lacking = lacking_, .notes = notes_, .passed_over = passed_over_};
  }

 private:
  void read_model() {
    if (type_ == "gpt2")
      read_gpt2();
    else if (std::ranges::find(kDefaults, type_, &Defaults::type) != std::end(kDefaults))
      read_llama();
    else if (type_ == "megatron-bert")
      read_bert();
    else if (type_ == "mamba2")
      read_mamba();
    else if (type_ == "nemotron_h")
      read_nemotron_h();
    else if (type_ == "bamba")
      read_bamba();
    else if (type_ == "t5")
      read_t5();
    else if (type_ == "bert" || type_ == "roberta" || type_ == "xlm-roberta")
      object_.refuse("model_type ", json_quoted(type_),
                     " has its norms behind what they are in front of in Megatron's BERT, "
                     "megatron-bert: one does not become the other");
    else
      object_.refuse("model_type ", json_quoted(type_), " is not known; expected gpt2, ",
                     types_with_defaults(), ", megatron-bert, mamba2, nemotron_h, bamba or t5");
    read_task_head();
    if (model_.vocab_size == 0) model_.vocab_size = size("vocab_size");
    if (object_.has("initializer_range"))
      model_.init_method_std = object_.real("initializer_range");
  }

  // A model of a task is one by the name of its class; how many labels it has is said by their
  // names alone, unless they are two.
  void read_task_head() {
    const std::string_view architecture = first_architecture();
    const bool bert = model_.family == ModelFamily::bert;
    if (bert && architecture.ends_with("ForMultipleChoice")) {
      model_.task_head = kMultichoiceHead;
      model_.num_labels = 1;
    } else if (architecture.ends_with("ForSequenceClassification")) {
      model_.task_head = bert ? kClassificationHead : kScoreHead;
      read_labels();
    }
  }

  std::string_view first_architecture() const {
    std::string_view name;
    if (!object_.has("architectures")) return name;
    simdjson::dom::array names;
    if (object_.member("architectures").get(names) || names.size() == 0 || names.at(0).get(name))
      object_.refuse("\"architectures\": expected a list of names");
    return name;
  }

  void read_labels() {
    model_.num_labels = 2;
    if (!object_.has("id2label")) return;
    const JsonObject names = object_.object("id2label");
    model_.num_labels = std::ssize(names.names());
    bool named = false;
    std::string lines;
    for (std::int64_t i = 0; i < model_.num_labels; ++i) {
      const std::string name(names.text(std::to_string(i)));
      if (name.find('\n') != name.npos)
        names.refuse("a label's name of several lines is not supported");
      named |= name != concat("LABEL_", i);
      lines += (i == 0 ? "" : "\n") + name;
    }
    if (named) model_.label_names = lines;
  }

  bool is_qwen_moe() const { return type_ == "qwen2_moe" || type_ == "qwen3_moe"; }
  bool is_glm() const { return type_ == "glm4_moe"; }
  bool is_qwen() const { return type_ == "qwen2" || type_ == "qwen3"; }
  std::int64_t size(const char* name) const { return object_.number(name, kMost); }
  std::int64_t size_or(const char* name, std::int64_t other) const {
    return object_.has(name) ? size(name) : other;
  }
  // Whether the name is there, though its value may be null.
  bool is_given(std::string_view name) const {
    return std::ranges::count(object_.names(), name) > 0;
  }
  double real_or(const char* name, double other) const {
    return object_.has(name) ? object_.real(name) : other;
  }
  void expect_text(const char* name, std::string_view expected) const {
    if (object_.text_or(name, expected) != expected)
      object_.refuse(json_quoted(name), " is ", json_quoted(object_.text(name)), ", expected ",
                     json_quoted(expected));
  }
  void expect_flag(const char* name, bool expected) const {
    if (object_.flag_or(name, expected) != expected)
      object_.refuse(json_quoted(name), " is ", expected ? "false" : "true",
                     ", which is not supported");
  }

  void read_gpt2() {
    // transformers takes the names that other families have for these, too, and before them.
    model_.num_layers = size_or("num_hidden_layers", size_or("n_layer", 12));
    model_.hidden_size = size_or("hidden_size", size_or("n_embd", 768));
    model_.num_attention_heads = size_or("num_attention_heads", size_or("n_head", 12));
    model_.max_position_embeddings =
        size_or("max_position_embeddings", size_or("n_positions", 1024));
    model_.vocab_size = size_or("vocab_size", 50257);
    if (object_.has("n_inner")) model_.ffn_hidden_size = size("n_inner");
    model_.norm_epsilon = real_or("layer_norm_epsilon", 1e-5);
    model_.attention_dropout = real_or("attn_pdrop", 0.1);
    model_.hidden_dropout = real_or("resid_pdrop", 0.1);
    model_.untie_embeddings_and_output_weights = !object_.flag_or("tie_word_embeddings", true);
    const std::string_view activation = object_.text_or("activation_function", "gelu_new");
    model_.bias_gelu_fusion = is_tanh_gelu(activation);
    if (!model_.bias_gelu_fusion && !is_erf_gelu(activation))
      expect_text("activation_function", "gelu");
    expect_flag("scale_attn_weights", true);
    expect_flag("scale_attn_by_inverse_layer_idx", false);
    expect_flag("add_cross_attention", false);
  }

  void read_llama() {
    const Defaults& usual = *std::ranges::find(kDefaults, type_, &Defaults::type);
    model_.position_embedding_type = "rope";
    model_.vocab_size = size_or("vocab_size", usual.vocab_size);
    model_.num_layers = size_or("num_hidden_layers", usual.layers);
    model_.hidden_size = size_or("hidden_size", usual.hidden_size);
    model_.num_attention_heads = size_or("num_attention_heads", usual.heads);
    model_.ffn_hidden_size = size_or("intermediate_size", usual.ffn);
    model_.max_position_embeddings = size_or("max_position_embeddings", usual.positions);
    model_.init_method_std = usual.init;
    if (object_.has("head_dim"))
      model_.kv_channels = size("head_dim");
    else if (usual.head_dim > 0 && !is_given("head_dim"))
      model_.kv_channels = usual.head_dim;
    const std::int64_t heads = model_.num_attention_heads;
    const bool as_heads = usual.kv_heads == 0 || is_given("num_key_value_heads");
    model_.num_query_groups = size_or("num_key_value_heads", as_heads ? heads : usual.kv_heads);
    model_.group_query_attention = model_.num_query_groups != heads;
    model_.attention_dropout = real_or("attention_dropout", 0);
    model_.hidden_dropout = 0;
    model_.untie_embeddings_and_output_weights =
        !object_.flag_or("tie_word_embeddings", usual.tied);
    read_kind(usual);
    read_biases();
    read_rope(usual.theta);
    if (type_ == "mistral") read_window();
    if (type_ == "mixtral") read_experts();
    if (is_qwen_moe()) read_qwen_experts();
    if (is_glm()) read_glm_experts();
    if (is_qwen()) read_qwen_windows();
    read_dense_family(object_, model_);
    if (is_dense_family(type_) && hugging_face_type(model_) != type_) model_.hf_model_type = type_;
  }

  void read_kind(const Defaults& usual) {
    const bool nemotron = type_ == "nemotron", gemma = is_gemma(type_), cohere = is_cohere(type_);
    read_activation(usual);
    model_.swiglu = !nemotron && !gemma;
    model_.squared_relu = nemotron;
    model_.gated_gelu = gemma;
    model_.apply_layernorm_1p = nemotron || gemma;
    model_.bias_gelu_fusion = false;
    model_.normalization = nemotron || cohere ? "LayerNorm" : "RMSNorm";
    model_.norm_epsilon = real_or(nemotron ? "norm_eps"
                                  : cohere ? "layer_norm_eps"
                                           : "rms_norm_eps",
                                  usual.epsilon);
    model_.qk_layernorm = type_ == "qwen3" || type_ == "qwen3_moe" || type_ == "gemma3_text" ||
                          type_ == "olmo2" || (is_glm() && object_.flag_or("use_qk_norm", false));
  }

  // Gemma's hidden_activation goes before its hidden_act, whose "gelu" is the tanh form: the first
  // releases had meant that.  Later Gemmas have no hidden_act.
  void read_activation(const Defaults& usual) const {
    const bool gemma = type_ == "gemma";
    if (!gemma && is_gemma(type_) && !object_.has("hidden_activation")) return;
    if (is_gemma(type_) && object_.has("hidden_activation")) {
      if (!is_tanh_gelu(object_.text("hidden_activation")))
        expect_text("hidden_activation", usual.activation);
      return;
    }
    const std::string_view name = object_.text_or("hidden_act", usual.activation);
    const bool same =
        gemma ? is_tanh_gelu(name) || name == "gelu" : is_silu(usual.activation) && is_silu(name);
    if (!same) expect_text("hidden_act", usual.activation);
  }

  void read_biases() {
    // Classes that have no such flag pass over one that is there.
    const bool has_both =
        type_ == "llama" || type_ == "nemotron" || type_ == "granite" || type_ == "smollm3";
    if (is_gemma(type_) || is_cohere(type_) || type_ == "qwen3" || type_ == "qwen3_moe" ||
        type_ == "olmo2")
      expect_flag("attention_bias", false);
    const bool attention = has_both && object_.flag_or("attention_bias", false),
               mlp = has_both && object_.flag_or("mlp_bias", false);
    model_.add_bias_linear = attention || mlp;
    lacking_.attention = mlp && !attention;
    lacking_.mlp = attention && !mlp;
    if (attention != mlp)
      notes_.push_back(concat(object_.where(), ": ", mlp ? "\"mlp_bias\"" : "\"attention_bias\"",
                              " alone: the biases of the ", mlp ? "attention" : "MLP",
                              " become zeros"));
    model_.add_qkv_bias = type_ == "qwen2" ||
                          (is_glm() && object_.flag_or("attention_bias", false)) ||
                          (type_ == "qwen2_moe" && object_.flag_or("qkv_bias", true));
  }

  void read_experts() {
    model_.family = ModelFamily::mixtral;
    model_.num_experts = size_or("num_local_experts", 8);
    model_.moe_router_topk = size_or("num_experts_per_tok", 2);
    model_.moe_aux_loss_coeff = real_or("router_aux_loss_coef", 0.001);
    if (object_.has("sliding_window")) set_window(size("sliding_window"));
  }

  void read_qwen_experts() {
    const bool second = type_ == "qwen2_moe";
    model_.family = ModelFamily::mixtral;
    model_.num_experts = size_or(
        object_.has("num_local_experts") ? "num_local_experts" : "num_experts", second ? 60 : 128);
    model_.moe_router_topk = size_or("num_experts_per_tok", second ? 4 : 8);
    model_.moe_ffn_hidden_size = size_or("moe_intermediate_size", second ? 1408 : 768);
    model_.moe_router_pre_softmax = !object_.flag_or("norm_topk_prob", false);
    model_.moe_aux_loss_coeff = real_or("router_aux_loss_coef", 0.001);
    model_.moe_shared_expert_gate = second;
    if (second)
      model_.moe_shared_expert_intermediate_size = size_or("shared_expert_intermediate_size", 5632);
    read_qwen_layers();
    expect_flag("use_sliding_window", false);
  }

  // Every decoder_sparse_step-th layer has experts, but for some that are named.
  void read_qwen_layers() {
    const std::int64_t step = size_or("decoder_sparse_step", 1);
    if (step < 1) object_.refuse("\"decoder_sparse_step\" is ", step, ", expected at least 1");
    std::set<std::int64_t> dense;
    simdjson::dom::array named;
    if (object_.has("mlp_only_layers")) {
      if (object_.member("mlp_only_layers").get(named))
        object_.refuse("\"mlp_only_layers\": expected a list of layers");
      for (const simdjson::dom::element element : named) {
        std::int64_t layer = 0;
        if (element.get(layer)) object_.refuse("\"mlp_only_layers\": expected a list of layers");
        dense.insert(layer);
      }
    }
    set_layers(
        [&](std::int64_t layer) { return (layer + 1) % step == 0 && !dense.contains(layer); });
  }

  template <class HasExperts>
  void set_layers(const HasExperts& has_experts) {
    std::string layers;
    if (model_.num_layers > kMany) return;  // which is refused
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer)
      layers += has_experts(layer) ? ",1" : ",0";
    if (layers.find('0') != layers.npos)
      model_.moe_layer_freq = concat("[", std::string_view(layers).substr(1), "]");
  }

  // Sigmoids with biases choose experts behind some dense layers.
  void read_glm_experts() {
    model_.family = ModelFamily::mixtral;
    model_.num_experts =
        size_or(object_.has("num_local_experts") ? "num_local_experts" : "n_routed_experts", 128);
    model_.moe_router_topk = size_or("num_experts_per_tok", 8);
    const std::int64_t width = size_or("moe_intermediate_size", 1408);
    model_.moe_ffn_hidden_size = width;
    model_.moe_shared_expert_intermediate_size = size_or("n_shared_experts", 1) * width;
    model_.moe_router_score_function = "sigmoid";
    model_.moe_router_enable_expert_bias = true;
    if (const double factor = real_or("routed_scaling_factor", 1); factor != 1)
      model_.moe_router_topk_scaling_factor = factor;
    expect_flag("norm_topk_prob", true);
    if (model_.moe_router_topk == 1)
      object_.refuse("\"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
    read_glm_groups();
    const std::int64_t dense = size_or("first_k_dense_replace", 1);
    set_layers([&](std::int64_t layer) { return layer >= dense; });
    passed_over_ = concat("layers.", model_.num_layers, ".");
  }

  void read_glm_groups() {
    const std::int64_t groups = size_or("n_group", 1), kept = size_or("topk_group", 1);
    if (groups == 1) return;
    if (model_.moe_router_topk != 2 * kept)
      object_.refuse("\"topk_group\" is ", kept, " for ", model_.moe_router_topk,
                     " experts, expected half as many: a group's score is the sum of its best two");
    model_.moe_router_num_groups = groups;
    model_.moe_router_group_topk = kept;
  }

  void read_bert() {
    model_.family = ModelFamily::bert;
    model_.num_layers = size_or("num_hidden_layers", 24);
    model_.hidden_size = size_or("hidden_size", 1024);
    model_.num_attention_heads = size_or("num_attention_heads", 16);
    model_.ffn_hidden_size = size_or("intermediate_size", 4096);
    model_.max_position_embeddings = size_or("max_position_embeddings", 512);
    model_.vocab_size = size_or("vocab_size", 29056);
    model_.norm_epsilon = real_or("layer_norm_eps", 1e-12);
    model_.attention_dropout = real_or("attention_probs_dropout_prob", 0.1);
    model_.hidden_dropout = real_or("hidden_dropout_prob", 0.1);
    if (!is_erf_gelu(object_.text_or("hidden_act", "gelu")))
      expect_text("hidden_act", "gelu");  // Megatron's head knows no other
    model_.bias_gelu_fusion = false;
    expect_flag("tie_word_embeddings", true);
    expect_flag("is_decoder", false);
    expect_flag("add_cross_attention", false);
    expect_number("type_vocab_size", 2);
  }

  void read_mamba() {
    model_.family = ModelFamily::mamba;
    model_.num_layers = size_or("num_hidden_layers", 64);
    model_.hidden_size = size_or("hidden_size", 4096);
    model_.vocab_size = size_or("vocab_size", 32768);
    model_.mamba_num_heads = model_.num_attention_heads = size_or("num_heads", 128);
    model_.mamba_head_dim = size_or("head_dim", 64);
    model_.kv_channels = model_.mamba_head_dim;
    model_.mamba_state_dim = size_or("state_size", 128);
    model_.max_position_embeddings = kMost;  // it knows no positions
    model_.attention_dropout = model_.hidden_dropout = 0;
    if (!is_silu(object_.text_or("hidden_act", "silu"))) expect_text("hidden_act", "silu");
    read_mamba_layers();
  }

  // What Mamba-2 and its hybrids have in common, but for its names.
  void read_mamba_layers() {
    model_.mamba_num_groups = size_or("n_groups", 8);
    model_.position_embedding_type = "none";
    read_mamba_norms("layer_norm_epsilon");
    expect_flag("use_bias", false);
    expect_flag("use_conv_bias", true);
    expect_number("conv_kernel", kMambaConv);
  }

  void read_mamba_norms(const char* epsilon) {
    model_.normalization = "RMSNorm";
    model_.add_bias_linear = false;
    model_.norm_epsilon = real_or(epsilon, 1e-5);
    if (model_.norm_epsilon != 1e-5)
      object_.refuse(json_quoted(epsilon), " is ", model_.norm_epsilon,
                     ", expected 1e-05, which Megatron's gated norms have");
    model_.untie_embeddings_and_output_weights = !object_.flag_or("tie_word_embeddings", false);
    expect_free_steps();
  }

  // Megatron's time steps, which are above 0, have no bounds.
  void expect_free_steps() const {
    constexpr double kAny = 1e9;
    if (!object_.has("time_step_limit")) return;
    simdjson::dom::array bounds;
    simdjson::dom::element least, most;
    double lower = 0, upper = 0;
    const bool two = !object_.member("time_step_limit").get(bounds) && bounds.size() == 2 &&
                     !bounds.at(0).get(least) && !least.get(lower) && !bounds.at(1).get(most);
    std::string_view number;
    const bool endless = two && (most.get(upper) == simdjson::SUCCESS
                                     ? upper >= kAny
                                     : !most["__float__"].get(number) && number == "Infinity");
    if (!endless || lower > 0)
      object_.refuse("\"time_step_limit\" bounds the time steps, which Megatron does not do");
  }

  void read_nemotron_h() {
    model_.family = ModelFamily::mamba;
    model_.hybrid_pattern = read_pattern();
    model_.num_layers = std::ssize(model_.hybrid_pattern);
    model_.hidden_size = size("hidden_size");
    model_.num_attention_heads = size("num_attention_heads");
    model_.num_query_groups = size("num_key_value_heads");
    model_.group_query_attention = model_.num_query_groups != model_.num_attention_heads;
    model_.kv_channels = size(object_.has("head_dim") ? "head_dim" : "attention_head_dim");
    model_.ffn_hidden_size = size("intermediate_size");
    model_.mamba_num_heads = size("mamba_num_heads");
    model_.mamba_head_dim = size("mamba_head_dim");
    model_.mamba_state_dim = size("ssm_state_size");
    model_.max_position_embeddings = size("max_position_embeddings");
    model_.attention_dropout = real_or("attention_dropout", 0);
    model_.hidden_dropout = real_or("hidden_dropout", 0);
    model_.squared_relu = true;
    model_.bias_gelu_fusion = false;
    expect_text("mlp_hidden_act", "relu2");
    expect_text("mamba_hidden_act", "silu");
    for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
      expect_flag(name, false);
    if (object_.has("sliding_window")) object_.refuse("\"sliding_window\" is not supported");
    expect_number("num_nextn_predict_layers", 0);
    read_mamba_layers();
  }

  // Each of its layers is two of ours: a mixer or attention, and an MLP.
  void read_bamba() {
    constexpr std::int64_t kLayers = 1 << 14;
    model_.family = ModelFamily::mamba;
    const std::int64_t layers =
        object_.has("num_hidden_layers") ? object_.number("num_hidden_layers", kLayers) : 32;
    for (std::int64_t i = 0; i < layers; ++i) model_.hybrid_pattern += "M-";
    model_.num_layers = 2 * layers;
    read_attention_layers(layers);
    model_.vocab_size = size_or("vocab_size", 128000);
    model_.hidden_size = size_or("hidden_size", 4096);
    model_.ffn_hidden_size = size_or("intermediate_size", 14336);
    model_.num_attention_heads = size_or("num_attention_heads", 32);
    model_.num_query_groups = size_or("num_key_value_heads", 8);
    model_.group_query_attention = model_.num_query_groups != model_.num_attention_heads;
    if (object_.has("head_dim")) model_.kv_channels = size("head_dim");
    model_.max_position_embeddings = size_or("max_position_embeddings", 262144);
    model_.attention_dropout = real_or("attention_dropout", 0);
    model_.hidden_dropout = 0;
    model_.swiglu = true;
    model_.bias_gelu_fusion = false;
    model_.position_embedding_type = "rope";
    if (!is_silu(object_.text_or("hidden_act", "silu"))) expect_text("hidden_act", "silu");
    for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
      expect_flag(name, false);
    expect_flag("mamba_conv_bias", true);
    expect_number("mamba_d_conv", kMambaConv);
    model_.mamba_num_heads = size_or("mamba_n_heads", 128);
    model_.mamba_state_dim = size_or("mamba_d_state", 256);
    model_.mamba_num_groups = size_or("mamba_n_groups", 1);
    std::string_view automatic;
    if (object_.has("mamba_d_head") && object_.member("mamba_d_head").get(automatic))
      model_.mamba_head_dim = size("mamba_d_head");
    else
      model_.mamba_head_dim =
          size_or("mamba_expand", 2) * model_.hidden_size / model_.mamba_num_heads;
    read_mamba_norms("rms_norm_eps");
    read_rope(10000);
  }

  void read_attention_layers(std::int64_t layers) {
    constexpr const char* kName = "attn_layer_indices";
    if (!object_.has(kName)) return;
    simdjson::dom::array indices;
    if (object_.member(kName).get(indices)) object_.refuse(json_quoted(kName), ": expected a list");
    for (const simdjson::dom::element entry : indices) {
      std::int64_t layer = 0;
      if (entry.get(layer) || layer < 0 || layer >= layers)
        object_.refuse(json_quoted(kName), ": expected numbers of layers");
      model_.hybrid_pattern[static_cast<std::size_t>(2 * layer)] = '*';
    }
  }

  // A list of names, or, of the 4th generation, their letters.
  std::string read_pattern() const {
    for (const char* list : {"layers_block_type", "layer_types"}) {
      simdjson::dom::array types;
      if (!object_.has(list)) continue;
      if (object_.member(list).get(types)) object_.refuse(json_quoted(list), ": expected a list");
      std::string pattern;
      for (const simdjson::dom::element entry : types) {
        std::string_view kind;
        if (entry.get(kind)) object_.refuse(json_quoted(list), ": expected texts");
        if (kind == "linear_attention" || kind == "mamba")
          pattern += 'M';
        else if (kind == "full_attention" || kind == "attention")
          pattern += '*';
        else if (kind == "mlp")
          pattern += '-';
        else
          object_.refuse(json_quoted(list), " has ", json_quoted(kind), ", which is not supported");
      }
      return pattern;
    }
    return std::string(object_.text("hybrid_override_pattern"));
  }

  void read_t5() {
    model_.family = ModelFamily::t5;
    model_.encoder_num_layers = size_or("num_layers", 6);
    model_.num_layers = size_or("num_decoder_layers", model_.encoder_num_layers);
    model_.hidden_size = size_or("d_model", 512);
    model_.num_attention_heads = size_or("num_heads", 8);
    model_.kv_channels = size_or("d_kv", 64);
    model_.ffn_hidden_size = size_or("d_ff", 2048);
    model_.vocab_size = size_or("vocab_size", 32128);
    model_.max_position_embeddings = object_.has("n_positions") ? size("n_positions") : kMost;
    model_.position_embedding_type = "relative";
    if (object_.has("relative_attention_num_buckets"))
      model_.relative_attention_num_buckets = size("relative_attention_num_buckets");
    if (object_.has("relative_attention_max_distance"))
      model_.relative_attention_max_distance = size("relative_attention_max_distance");
    model_.normalization = "RMSNorm";
    model_.add_bias_linear = false;
    model_.norm_epsilon = real_or("layer_norm_epsilon", 1e-6);
    model_.attention_dropout = model_.hidden_dropout = real_or("dropout_rate", 0.1);
    expect_flag("is_encoder_decoder", true);
    read_t5_mlp();
    const bool tied = object_.flag_or("tie_word_embeddings", true);
    model_.untie_embeddings_and_output_weights = !tied;
    model_.scale_decoder_outputs = object_.flag_or("scale_decoder_outputs", tied);
    check_square_root("d_kv", *model_.kv_channels, "scores of attention");
    if (model_.scale_decoder_outputs)
      check_square_root("d_model", model_.hidden_size, "the decoder's output");
  }

  void read_t5_mlp() {
    const std::string_view kind = object_.text_or("feed_forward_proj", "relu");
    model_.relu = kind == "relu";
    model_.gated_gelu = kind == "gated-gelu";
    model_.swiglu = kind == "gated-silu" || kind == "gated-swish";
    model_.bias_gelu_fusion = false;
    if (!model_.relu && !model_.gated_gelu && !model_.swiglu)
      expect_text("feed_forward_proj", "gelu");
    check_t5_activation(kind);
  }

  // What follows from the kind of MLP may stand beside it, and would count instead.
  void check_t5_activation(std::string_view kind) const {
    expect_flag("is_gated_act", kind.starts_with("gated-"));
    if (!object_.has("dense_act_fn")) return;
    const std::string_view name = object_.text("dense_act_fn");
    const bool same = model_.relu         ? name == "relu"
                      : model_.gated_gelu ? is_tanh_gelu(name)
                      : model_.swiglu     ? is_silu(name)
                                          : is_erf_gelu(name);
    if (!same)
      object_.refuse("\"dense_act_fn\" is ", json_quoted(name),
                     ", which is not that of \"feed_forward_proj\" ", json_quoted(kind));
  }

  // Megatron and T5 differ in whether they divide by a square root, for which weights make up.
  void check_square_root(const char* name, std::int64_t value, const char* what) const {
    if (!is_power_of_four(value))
      object_.refuse(json_quoted(name), " is ", value, ", and ", what,
                     " differ between T5 and Megatron by its square root, which is no power of "
                     "two: weights would be rounded");
  }

  void expect_number(const char* name, std::int64_t expected) const {
    if (object_.has(name) && size(name) != expected)
      object_.refuse(json_quoted(name), " is ", size(name), ", expected ", expected);
  }

  // The older of its two names, which people add by hand, goes before what was saved under the
  // newer.
  std::optional<JsonObject> find_rope() const {
    for (const char* const name : {"rope_scaling", "rope_parameters"})
      if (object_.has(name))
        if (const JsonObject rope = object_.object(name); !rope.names().empty()) return rope;
    return {};
  }

  // A Gemma 3 has one for each kind of its layers.
  std::optional<JsonObject> find_rope_of_all() const {
    std::optional<JsonObject> rope = find_rope();
    constexpr const char* kFull = "full_attention";
    if (type_ != "gemma3_text" || !rope) return rope;
    for (const std::string_view name : rope->names())
      if (name == kFull || name == "sliding_attention")
        return rope->has(kFull) ? std::optional(rope->object(kFull)) : std::nullopt;
    return rope;
  }

  void read_rope(double usual_theta) {
    constexpr const char* kPart = "partial_rotary_factor";
    double theta = real_or("rope_theta", usual_theta);
    const bool in_half = type_ == "nemotron" || type_ == "bamba" || is_glm();
    double part = real_or(kPart, in_half ? 0.5 : 1);
    const std::optional<JsonObject> scaling = find_rope_of_all();
    if (scaling && scaling->has("rope_theta")) theta = scaling->real("rope_theta");
    if (scaling && scaling->has(kPart)) part = scaling->real(kPart);
    if (in_half || type_ == "phi3")
      model_.rotary_percent = part;
    else if (part != 1)
      notes_.push_back(concat(object_.where(), ": ", json_quoted(kPart), " is passed over, as by ",
                              type_, " of transformers"));
    if (!(theta >= 1 && theta < 0x1p62) || theta != std::floor(theta))
      object_.refuse("\"rope_theta\" is ", theta, ", expected a whole number");
    model_.rotary_base = static_cast<std::int64_t>(theta);
    if (scaling) read_scaling(*scaling);
  }

  // As transformers' modeling_rope_utils.py computes them.
  void read_scaling(const JsonObject& rope) {
    static constexpr std::string_view kKnown[] = {
        "rope_type",        "type",
        "rope_theta",       "partial_rotary_factor",
        "factor",           "low_freq_factor",
        "high_freq_factor", "original_max_position_embeddings",
        "attention_factor", "beta_fast",
        "beta_slow",        "mscale",
        "mscale_all_dim",   "truncate",
        "finetuned",        "short_factor",
        "long_factor"};
    for (const std::string_view name : rope.names())
      if (std::ranges::find(kKnown, name) == std::end(kKnown))
        rope.refuse(json_quoted(name), " is not supported");
    std::string_view kind = rope.text_or("rope_type", rope.text_or("type", "default"));
    if (type_ == "phi3" && kind == "yarn") kind = "longrope";  // what it was called at first
    if (kind != "default" && kind != "dynamic" && kind != "linear") check_channels();
    const RopeScaling scaling(rope, object_, model_);
    if (kind == "linear") {
      model_.rotary_interpolation = rope.real("factor");
    } else if (kind == "llama3") {
      model_.use_rope_scaling = scaling.is_llama3();
      if (model_.use_rope_scaling)
        model_.rope_scaling_factor = rope.real("factor");
      else
        scaling.set_llama3(model_);
    } else if (kind == "yarn") {
      scaling.set_yarn(model_);
    } else if (kind == "longrope" || kind == "su") {
      scaling.set_longrope(model_);
      if (const std::int64_t positions = scaling.original_positions();
          positions < model_.max_position_embeddings) {
        notes_.push_back(concat(rope.where(),
                                ": longrope has other frequencies for texts of more "
                                "than ",
                                positions,
                                " tokens; ours are those of shorter ones, and "
                                "--max-position-embeddings is ",
                                positions));
        model_.max_position_embeddings = positions;
      }
    } else if (kind != "default" && kind != "dynamic") {  // dynamic: none within its positions
      rope.refuse("rope_type ", json_quoted(kind),
                  ": expected default, linear, dynamic, llama3, yarn or longrope");
    }
    if (!(model_.rope_attention_factor > 0) || std::isinf(model_.rope_attention_factor))
      rope.refuse("multiplies queries and keys by ", model_.rope_attention_factor,
                  ", expected more than 0");
  }

  // A scaling has a factor for each pair of channels, before the model is complete.
  void check_channels() const {
    constexpr std::int64_t kMostChannels = 1 << 16;
    if (model_.num_attention_heads < 1)
      object_.refuse("\"num_attention_heads\" is ", model_.num_attention_heads,
                     ", expected at least 1");
    if (model_.head_dim() > kMostChannels)
      object_.refuse("heads of ", model_.head_dim(), " channels, expected at most ", kMostChannels);
    if (!(model_.rotary_percent > 0 && model_.rotary_percent <= 1))
      object_.refuse("\"partial_rotary_factor\" is ", model_.rotary_percent,
                     ", expected more than 0 and at most 1");
  }

  void set_window(std::int64_t tokens) {
    if (tokens < 1) object_.refuse("\"sliding_window\" is ", tokens, ", expected at least 1");
    model_.window_size = concat(tokens - 1, ",0");
  }

  void read_window() {
    const bool given = std::ranges::count(object_.names(), "sliding_window") > 0;
    if (!given) return set_window(4096);
    if (object_.has("sliding_window")) set_window(size("sliding_window"));
  }

  // Layers from max_window_layers on have a window, unless layer_types says which.
  void read_qwen_windows() {
    if (!object_.flag_or("use_sliding_window", false)) return;
    set_window(object_.has("sliding_window") ? size("sliding_window") : 4096);
    const std::int64_t full = object_.has("max_window_layers") ? size("max_window_layers") : 28;
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer)
      model_.window_attn_skip_freq.push_back(layer >= full);
    if (!object_.has("layer_types")) return;
    simdjson::dom::array types;
    if (object_.member("layer_types").get(types) ||
        types.size() != static_cast<std::size_t>(model_.num_layers))
      object_.refuse("\"layer_types\": expected one for each layer");
    model_.window_attn_skip_freq.clear();
    for (const simdjson::dom::element entry : types) {
      std::string_view kind;
      if (entry.get(kind) || (kind != "sliding_attention" && kind != "full_attention"))
        object_.refuse("\"layer_types\": expected sliding_attention or full_attention");
      model_.window_attn_skip_freq.push_back(kind == "sliding_attention");
    }
  }

  const JsonObject& object_;
  std::string_view type_;
  ModelConfig model_;
  LackingBiases lacking_;
  std::string passed_over_;
  std::vector<std::string> notes_;
};

}  // namespace

static std::optional<DType> dtype_of(const JsonObject& object) {
  const char* const name = object.has("dtype") ? "dtype" : "torch_dtype";
  std::string_view text = object.text_or(name, "auto");
  if (text == "auto") return {};
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (const DType known : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (text == name_of(known)) return known;
  object.refuse(json_quoted(name), " is ", json_quoted(text), ", expected a floating-point type");
}

constexpr std::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

static std::string as_object(std::string_view number) {
  return concat("{\"__float__\":\"", number, "\"}");
}

std::string without_python_numbers(const std::string& json) {
  std::string text;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view rest = std::string_view(json).substr(at);
    const auto* const number =
        std::ranges::find_if(kPythonNumbers, [&](auto n) { return rest.starts_with(n); });
    if (!quoted && number != std::end(kPythonNumbers)) {
      text += as_object(*number);
      at += number->size();
      continue;
    }
    const std::size_t taken = quoted && rest[0] == '\\' ? std::min<std::size_t>(2, rest.size()) : 1;
    quoted = quoted != (rest[0] == '"');
    text += rest.substr(0, taken);
    at += taken;
  }
  return text;
}

std::string with_python_numbers(std::string json) {
  for (const std::string_view number : kPythonNumbers) {
    const std::string object = as_object(number);
    for (std::size_t at = 0; (at = json.find(object, at)) != std::string::npos;)
      json.replace(at, object.size(), number);
  }
  return json;
}

std::vector<std::int32_t> token_ids_at(const char* member, const std::string& text,
                                       const std::string& path) {
  Allowance(text.size()).take_json(text, path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root))
    fail(Exit::bad_data, path, ": ", json_place(text), simdjson::error_message(error));
  const JsonObject object(root, path);
  std::vector<std::int32_t> ids;
  if (!object.has(member)) return ids;
  const auto add = [&](simdjson::dom::element element) {
    std::int64_t id = -1;
    if (!element.get(id) && 0 <= id && id <= kMost) ids.push_back(static_cast<std::int32_t>(id));
  };
  const simdjson::dom::element ends = object.member(member);
  if (simdjson::dom::array list; !ends.get(list))
    for (const simdjson::dom::element one : list) add(one);
  else
    add(ends);
  return ids;
}

bool LackingBiases::has(const RowPlace& row) const {
  const std::string_view module = row.module;
  return row.param == std::string_view("bias") &&
         ((attention && module.starts_with("self_attention.linear")) ||
          (mlp && module.starts_with("mlp.linear")));
}

HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& path) {
  Allowance(text.size()).take_json(text, path);
  const std::string json = without_python_numbers(text);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, json).get(root))
    fail(Exit::bad_data, path, ": ", json_place(json), simdjson::error_message(error));
  const JsonObject object(root, path);
  HuggingFaceConfig config = ConfigReader(object).read();
  config.dtype = dtype_of(object);
  config.output_if_stored =
      config.model.family == ModelFamily::t5 && object.has("scale_decoder_outputs");
  return config;
}

}  // namespace mt
