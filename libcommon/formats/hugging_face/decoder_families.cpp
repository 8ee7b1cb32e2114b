#include <algorithm>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/delta_family.h"
#include "formats/hugging_face/dense_families.h"
#include "formats/hugging_face/latent_families.h"
#include "formats/hugging_face/layer_norm_families.h"
#include "formats/hugging_face/typed_experts.h"
#include "formats/names/hugging_face.h"
#include "model/config/ranges.h"

namespace mt {
namespace {

// What becomes of attention_bias and mlp_bias: classes that have none of them pass over them.
enum class Biases : std::uint8_t { none, flags, refused };
using enum Biases;

// What a class of transformers' takes where config.json says nothing.
struct Decoder {
  std::string_view type, architecture;
  Biases biases;
  std::int64_t vocab_size, layers, hidden_size, heads, kv_heads, head_dim, ffn, positions;
  double epsilon = 1e-6, theta = 10000, init = 0.02;
  std::string_view activation = "silu";
  bool tied = false;
};
// kv_heads 0: as many as heads; head_dim 0: hidden_size / heads.
constexpr Decoder kDecoders[] = {
    {"llama", "LlamaForCausalLM", flags, 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"mistral", "MistralForCausalLM", none, 32000, 32, 4096, 32, 8, 0, 14336, 131072},
    {"mixtral", "MixtralForCausalLM", none, 32000, 32, 4096, 32, 8, 0, 14336, 131072, 1e-5, 1e6},
    {"gemma", "GemmaForCausalLM", refused, 256000, 28, 3072, 16, 16, 256, 24576, 8192, 1e-6, 10000,
     0.02, "gelu_pytorch_tanh", true},
    {"gemma2", "Gemma2ForCausalLM", refused, 256000, 26, 2304, 8, 4, 256, 9216, 8192, 1e-6, 10000,
     0.02, "gelu_pytorch_tanh", true},
    {"vaultgemma", "VaultGemmaForCausalLM", refused, 256000, 26, 2304, 8, 4, 256, 9216, 8192, 1e-6,
     10000, 0.02, "gelu_pytorch_tanh", true},
    {"gemma3_text", "Gemma3ForCausalLM", refused, 262208, 26, 2304, 8, 4, 256, 9216, 131072, 1e-6,
     1e6, 0.02, "gelu_pytorch_tanh", true},
    {"olmo2", "Olmo2ForCausalLM", refused, 50304, 32, 4096, 32, 0, 0, 11008, 2048, 1e-5},
    {"olmo3", "Olmo3ForCausalLM", refused, 50304, 32, 4096, 32, 0, 0, 11008, 2048, 1e-5, 500000},
    {"exaone", "ExaoneForCausalLM", flags, 102400, 32, 4096, 32, 8, 0, 14336, 4096, 1e-5, 500000},
    {"exaone4", "Exaone4ForCausalLM", none, 102400, 32, 4096, 32, 32, 0, 16384, 2048, 1e-5},
    {"glm", "GlmForCausalLM", none, 151552, 40, 4096, 32, 2, 128, 13696, 131072, 1.5625e-7},
    {"glm4", "Glm4ForCausalLM", none, 151552, 40, 4096, 32, 2, 128, 13696, 131072, 1.5625e-7},
    {"ernie4_5", "Ernie4_5ForCausalLM", none, 103424, 18, 1024, 16, 2, 128, 3072, 131072, 1e-5,
     500000, 0.02, "silu", true},
    {"seed_oss", "SeedOssForCausalLM", none, 155136, 64, 4096, 80, 8, 128, 27648, 524288},
    {"internlm2", "InternLM2ForCausalLM", none, 103168, 32, 4096, 32, 0, 0, 11008, 2048},
    {"internlm3", "InternLM3ForCausalLM", none, 128512, 48, 4096, 32, 2, 128, 10240, 32768, 1e-5},
    {"arcee", "ArceeForCausalLM", flags, 32000, 32, 2560, 32, 0, 0, 18432, 4096, 1e-5, 10000, 0.02,
     "relu2"},
    {"helium", "HeliumForCausalLM", refused, 48000, 24, 2560, 20, 20, 128, 7040, 4096, 1e-8,
     100000},
    {"ministral", "MinistralForCausalLM", none, 32000, 32, 4096, 32, 8, 0, 14336, 131072},
    {"ministral3", "Ministral3ForCausalLM", none, 131072, 34, 4096, 32, 8, 128, 14336, 262144,
     1e-5},
    {"phi3", "Phi3ForCausalLM", none, 32064, 32, 3072, 32, 0, 0, 8192, 4096, 1e-5},
    {"apertus", "ApertusForCausalLM", refused, 131072, 32, 4096, 32, 0, 0, 14336, 65536, 1e-5, 12e6,
     0.02, "xielu"},
    {"nanochat", "NanoChatForCausalLM", refused, 50304, 12, 768, 6, 0, 0, 8192, 2048, 1e-6, 10000,
     0.02, "relu2"},
    {"iquestcoder", "IQuestCoderForCausalLM", flags, 76800, 80, 5120, 40, 8, 128, 27648, 131072,
     1e-5},
    {"granite", "GraniteForCausalLM", flags, 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"granite_swa", "GraniteSWAForCausalLM", flags, 100352, 24, 2560, 20, 4, 0, 8192, 8192, 1e-5,
     10000, 0.02, "silu", true},
    {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", refused, 290943, 32, 4096, 32, 0, 0, 11008,
     2048, 1e-5},
    {"hyperclovax", "HyperCLOVAXForCausalLM", flags, 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"minicpm", "MiniCPMForCausalLM", refused, 32000, 32, 4096, 32, 0, 0, 11008, 2048, 1e-6, 10000,
     0.02, "silu", true},
    {"cwm", "CwmForCausalLM", refused, 128256, 64, 6144, 48, 8, 128, 21504, 131072, 1e-5, 1e6},
    {"smollm3", "SmolLM3ForCausalLM", flags, 128256, 36, 2048, 16, 4, 0, 11008, 32768, 1e-6, 2e6,
     0.02, "silu", true},
    {"cohere", "CohereForCausalLM", refused, 256000, 40, 8192, 64, 0, 0, 22528, 8192, 1e-5, 500000,
     0.02, "silu", true},
    {"cohere2", "Cohere2ForCausalLM", refused, 256000, 40, 8192, 64, 0, 0, 22528, 8192, 1e-5, 10000,
     0.02, "silu", true},
    {"qwen2", "Qwen2ForCausalLM", none, 151936, 32, 4096, 32, 32, 0, 22016, 32768},
    {"qwen3", "Qwen3ForCausalLM", refused, 151936, 32, 4096, 32, 32, 128, 22016, 32768},
    {"qwen2_moe", "Qwen2MoeForCausalLM", none, 151936, 24, 2048, 16, 16, 0, 5632, 32768},
    {"qwen3_moe", "Qwen3MoeForCausalLM", refused, 151936, 24, 2048, 32, 4, 0, 6144, 32768},
    {"qwen3_next", "Qwen3NextForCausalLM", refused, 151936, 48, 2048, 16, 2, 256, 5632, 32768},
    {kQwen35, "Qwen3_5ForCausalLM", refused, 248320, 32, 4096, 16, 4, 256, 12288, 32768},
    {"glm4_moe", "Glm4MoeForCausalLM", none, 151552, 46, 4096, 96, 8, 0, 10944, 131072, 1e-5},
    {"dots1", "Dots1ForCausalLM", refused, 152064, 62, 4608, 32, 32, 0, 10944, 2048},
    {"granitemoe", "GraniteMoeForCausalLM", refused, 32000, 32, 4096, 32, 0, 0, 11008, 2048},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", refused, 32000, 32, 4096, 32, 0, 0, 11008,
     2048},
    {"olmoe", "OlmoeForCausalLM", refused, 50304, 16, 2048, 16, 0, 0, 2048, 4096, 1e-5},
    {"flex_olmo", "FlexOlmoForCausalLM", refused, 100352, 32, 4096, 32, 0, 0, 11008, 4096, 1e-6,
     500000},
    {"minimax_m2", "MiniMaxM2ForCausalLM", none, 200064, 62, 3072, 48, 8, 128, 1536, 196608, 1e-6,
     5e6},
    {"gpt_oss", "GptOssForCausalLM", none, 201088, 36, 2880, 64, 8, 64, 2880, 131072, 1e-5, 150000},
    {"deepseek_v2", "DeepseekV2ForCausalLM", refused, 102400, 32, 4096, 32, 0, 0, 11008, 2048},
    {"deepseek_v3", "DeepseekV3ForCausalLM", refused, 129280, 61, 7168, 128, 0, 0, 18432, 4096},
    {"kimi_k2", "DeepseekV3ForCausalLM", refused, 129280, 61, 7168, 128, 0, 0, 18432, 4096},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", refused, 154880, 47, 2048, 20, 20, 0, 10240, 202752,
     1e-5},
    {"solar_open", "SolarOpenForCausalLM", none, 196608, 48, 4096, 64, 8, 128, 10944, 131072, 1e-5,
     1e6},
    {"exaone_moe", "ExaoneMoeForCausalLM", none, 102400, 32, 4096, 32, 32, 0, 16384, 2048, 1e-5},
    {"hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", refused, 290943, 32, 4096, 32, 0, 0, 11008, 2048,
     1e-5},
    {"hy_v3", "HYV3ForCausalLM", refused, 120832, 80, 4096, 64, 8, 128, 13312, 131072, 1e-5,
     11158840, 0.006},
    {"youtu", "YoutuForCausalLM", refused, 128256, 32, 2048, 16, 16, 0, 6144, 131072, 1e-6, 10000,
     0.02, "silu", true},
    {"nemotron", "NemotronForCausalLM", flags, 256000, 32, 6144, 48, 0, 0, 24576, 4096, 1e-5, 10000,
     0.0134, "relu2"},
};

const Decoder* find_decoder(std::string_view type) {
  const auto* const found = std::ranges::find(kDecoders, type, &Decoder::type);
  return found == std::end(kDecoders) ? nullptr : found;
}

bool is_olmo(std::string_view type) {
  return type == "olmo2" || type == "olmo3" || type == "olmoe" || type == "flex_olmo";
}
const char* activation_member(std::string_view type) {
  return type == "exaone" ? "activation_function" : "hidden_act";
}
bool is_qwen3(std::string_view type) { return type == "qwen3" || type == "qwen3_moe"; }

// --- Reading ------------------------------------------------------------------------------------

class DecoderReader {
 public:
  DecoderReader(const ConfigJson& json, HuggingFaceConfig& config, const Decoder& usual)
      : json_(json), config_(config), model_(config.model), usual_(usual) {}

  void read() {
    model_.position_embedding_type = "rope";
    read_sizes();
    model_.init_method_std = usual_.init;
    model_.attention_dropout =
        json_.real_or("attention_dropout", usual_.type == "seed_oss" ? 0.1 : 0);
    model_.hidden_dropout = 0;
    model_.untie_embeddings_and_output_weights = !json_.flag_or("tie_word_embeddings", usual_.tied);
    read_kind();
    read_biases();
    if (is_latent_family(usual_.type)) read_latent_attention(json_, config_);
    read_rope(json_, config_, usual_.theta);
    if (model_.num_layers > kMany) return;  // which is refused, before anything of so many
    read_experts(json_, config_);
    if (is_delta_family(usual_.type)) {
      read_delta_family(json_, model_);
      config_.passed_over = kPassedOverByDelta;
    }
    read_windows();
    read_dense_family(json_, model_);
    if (usual_.type == "minicpm" && !json_.has("tie_word_embeddings"))
      config_.output_if_stored = true;  // its makers' classes have either by default
    const bool has_own_type = is_dense_family(usual_.type) || is_delta_family(usual_.type) ||
                              has_typed_experts(usual_.type);
    if (has_own_type && hugging_face_type(model_) != usual_.type)
      model_.hf_model_type = usual_.type;
  }

 private:
  void read_sizes() {
    model_.vocab_size = json_.size_or("vocab_size", usual_.vocab_size);
    model_.num_layers = json_.size_or(
        "num_hidden_layers",
        usual_.type == "exaone" ? json_.size_or("num_layers", usual_.layers) : usual_.layers);
    model_.hidden_size = json_.size_or("hidden_size", usual_.hidden_size);
    model_.num_attention_heads = json_.size_or("num_attention_heads", usual_.heads);
    model_.ffn_hidden_size = json_.size_or("intermediate_size", usual_.ffn);
    model_.max_position_embeddings = json_.size_or("max_position_embeddings", usual_.positions);
    if (json_.has("head_dim"))
      model_.kv_channels = json_.size("head_dim");
    else if (usual_.head_dim > 0 && !json_.is_null("head_dim"))
      model_.kv_channels = usual_.head_dim;
    const std::int64_t heads = model_.num_attention_heads;
    const bool as_heads = usual_.kv_heads == 0 || json_.is_null("num_key_value_heads");
    model_.num_query_groups =
        json_.size_or("num_key_value_heads", as_heads ? heads : usual_.kv_heads);
    model_.group_query_attention = model_.num_query_groups != heads;
  }

  void read_kind() {
    const std::string_view type = usual_.type;
    const bool nemotron = type == "nemotron", gemma = is_gemma(type), xielu = type == "apertus",
               squares = nemotron || type == "arcee" || type == "nanochat";
    read_activation();
    model_.swiglu = !squares && !xielu && !gemma && type != "gpt_oss";
    model_.squared_relu = squares;
    model_.xielu = xielu;
    model_.gated_gelu = gemma;
    model_.apply_layernorm_1p = nemotron || gemma || is_delta_family(type);
    model_.bias_gelu_fusion = false;
    model_.normalization = nemotron || is_cohere(type) ? "LayerNorm" : "RMSNorm";
    model_.norm_epsilon = json_.real_or(
        epsilon_name(type),
        type == "exaone" ? json_.real_or("rms_norm_eps", usual_.epsilon) : usual_.epsilon);
    model_.qk_layernorm = is_qwen3(type) || is_delta_family(type) || type == "gemma3_text" ||
                          is_olmo(type) || type == "exaone4" || xielu || type == "nanochat" ||
                          type == "dots1" || type == "exaone_moe" || type == "hy_v3" ||
                          type == "minimax_m2" ||
                          (type == "glm4_moe" && json_.flag_or("use_qk_norm", false));
  }

  // Gemma's hidden_activation goes before its hidden_act, whose "gelu" is the tanh form: the first
  // releases had meant that.  Later Gemmas have no hidden_act.
  void read_activation() const {
    const bool first = usual_.type == "gemma";
    if (is_gemma(usual_.type) && json_.has("hidden_activation")) {
      if (!is_tanh_gelu(json_.text("hidden_activation")))
        json_.expect_text("hidden_activation", usual_.activation);
      return;
    }
    if (is_gemma(usual_.type) && !first) return;
    const char* const member = activation_member(usual_.type);
    const std::string_view name =
        json_.text_or(json_.has("hidden_act") ? "hidden_act" : member, usual_.activation);
    const bool same =
        first ? is_tanh_gelu(name) || name == "gelu" : is_silu(usual_.activation) && is_silu(name);
    if (!same)
      json_.expect_text(json_.has("hidden_act") ? "hidden_act" : member, usual_.activation);
  }

  // What its makers call `name`, transformers 5 calls `other`, and takes both.
  bool either_flag(std::string_view name, std::string_view other) const {
    return json_.flag_or(name, json_.flag_or(other, false));
  }

  void read_biases() {
    if (usual_.biases == refused) json_.expect_flag("attention_bias", false);
    const bool has_both = usual_.biases == flags;
    const bool attention = has_both && json_.flag_or("attention_bias", false),
               mlp = has_both && json_.flag_or("mlp_bias", false);
    const bool all = (usual_.type == "ernie4_5" && json_.flag_or("use_bias", false)) ||
                     (usual_.type == "internlm3" && either_flag("bias", "mlp_bias"));
    model_.add_bias_linear = all || attention || mlp;
    const bool of_qkv = usual_.type == "internlm3" && either_flag("qkv_bias", "attention_bias");
    if (usual_.type == "internlm3" && all && !of_qkv)
      json_.refuse("\"qkv_bias\" is false and \"bias\" true, which is not supported");
    if (usual_.type == "seed_oss") return read_seed_biases();
    if (usual_.type == "helium" || usual_.type == "cwm") json_.expect_flag("mlp_bias", false);
    if (usual_.type == "internlm2" && json_.flag_or("bias", true))
      json_.refuse("\"bias\" is true, as it is where nothing is said, and not supported");
    config_.lacking.attention = mlp && !attention;
    config_.lacking.mlp = attention && !mlp;
    if (attention != mlp)
      config_.notes.push_back(
          concat(json_.where(), ": ", mlp ? "\"mlp_bias\"" : "\"attention_bias\"",
                 " alone: the biases of the ", mlp ? "attention" : "MLP", " become zeros"));
    model_.add_qkv_bias = usual_.type == "qwen2" ||
                          (has_attention_bias(usual_.type) &&
                           json_.flag_or("attention_bias", usual_.type != "glm4_moe" &&
                                                               usual_.type != "solar_open")) ||
                          (of_qkv && !all) ||
                          (usual_.type == "qwen2_moe" && json_.flag_or("qkv_bias", true));
  }

  // Each of the three may be there but for the second without the last.
  void read_seed_biases() {
    const bool qkv = json_.flag_or("attention_bias", true),
               out = json_.flag_or("attention_out_bias", false),
               mlp = json_.flag_or("mlp_bias", false);
    if (out && !mlp)
      json_.refuse("\"mlp_bias\" is false and \"attention_out_bias\" true, which is not supported");
    model_.add_bias_linear = mlp;
    if (mlp) model_.attention_bias = out;
    if (out) model_.qkv_bias = qkv;
    model_.add_qkv_bias = qkv && !out;
  }

  void read_windows() {
    const std::string_view type = usual_.type;
    if ((type == "mistral" && !json_.is_null("sliding_window")) ||
        ((type == "mixtral" || type == "ministral3") && json_.has("sliding_window")))
      model_.window_size = json_.window_size();
    if (type == "qwen2" || type == "qwen3") read_qwen_windows();
    if (is_qwen_moe(type)) json_.expect_flag("use_sliding_window", false);
  }

  // Layers from max_window_layers on have a window, unless layer_types says which.
  void read_qwen_windows() {
    if (!json_.flag_or("use_sliding_window", false)) return;
    model_.window_size = json_.window_size();
    const std::int64_t full = json_.size_or("max_window_layers", 28);
    if (const auto sliding = json_.sliding_layers(model_.num_layers))
      model_.window_attn_skip_freq.assign(sliding->begin(), sliding->end());
    else
      for (std::int64_t layer = 0; layer < model_.num_layers; ++layer)
        model_.window_attn_skip_freq.push_back(layer >= full);
  }

  const ConfigJson& json_;
  HuggingFaceConfig& config_;
  ModelConfig& model_;
  const Decoder& usual_;
};

// --- Writing ------------------------------------------------------------------------------------

void write_windows(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  write_sliding_window(json, c);
  if (type == "mistral" || type == "mixtral") return;
  json.member("use_sliding_window", c.tokens_before() >= 0);
  write_layer_types(json, c);
}

}  // namespace

std::string_view decoder_architecture(std::string_view type) {
  const Decoder* const decoder = find_decoder(type);
  return decoder ? decoder->architecture : std::string_view();
}

const char* epsilon_name(std::string_view type) {
  if (const char* const name = layer_norm_epsilon_name(type)) return name;
  if (type == "exaone") return "layer_norm_epsilon";
  return type == "nemotron" ? "norm_eps" : is_cohere(type) ? "layer_norm_eps" : "rms_norm_eps";
}

bool has_bias_flags(std::string_view type) {
  const Decoder* const decoder = find_decoder(type);
  return decoder && decoder->biases == flags;
}

bool has_attention_bias(std::string_view type) {
  return type == "glm4_moe" || type == "glm" || type == "glm4" || type == "seed_oss" ||
         type == "solar_open";
}

std::string decoder_types() {
  std::string types;
  for (const Decoder& decoder : kDecoders) types += concat(types.empty() ? "" : ", ", decoder.type);
  return types;
}

std::string_view decoder_type(const ModelConfig& c) {
  if (c.multi_latent_attention) return latent_type(c);
  if (c.position_embedding_type != "rope") refuse_setting("--position-embedding-type none");
  if (c.rotary_interleaved) refuse_setting("--rotary-interleaved");
  const bool windows = !c.window_size.empty(), qkv_only = c.has_qkv_bias() && !c.add_bias_linear;
  if (c.squared_relu && c.normalization == "LayerNorm" && c.apply_layernorm_1p) {
    if (qkv_only || windows || c.qk_layernorm)
      refuse_setting("--squared-relu with --add-qkv-bias, --window-size or --qk-layernorm");
    return "nemotron";
  }
  if (!c.swiglu || c.normalization != "RMSNorm" || c.apply_layernorm_1p)
    refuse_setting("rotary positions without --swiglu and plain RMSNorm");
  const bool experts = c.family == ModelFamily::mixtral;
  if (experts && c.moe_router_score_function == "sigmoid") {
    check_glm(c);
    return "glm4_moe";
  }
  if (c.rotary_percent != 1) refuse_setting("--rotary-percent with --swiglu");
  if (c.add_bias_linear && (windows || c.qk_layernorm))
    refuse_setting("biases with --window-size or --qk-layernorm");
  if (c.qk_layernorm && qkv_only) refuse_setting("--qk-layernorm with --add-qkv-bias");
  if (experts) return expert_type(c);
  if (c.qk_layernorm) return "qwen3";
  if (qkv_only) return "qwen2";
  if (!windows) return "llama";
  if (!c.window_attn_skip_freq.empty()) refuse_setting("--window-attn-skip-freq");
  return "mistral";
}

void read_decoder(const ConfigJson& json, HuggingFaceConfig& config) {
  json.expect_causal();
  DecoderReader(json, config, *find_decoder(json.model_type())).read();
}

void write_decoder(JsonWriter& json, const ModelConfig& c, std::string_view type,
                   const std::optional<KeptPositions>& kept) {
  const Decoder& usual = *find_decoder(type);
  json.member(type == "exaone" ? "num_layers" : "num_hidden_layers", c.num_layers);
  json.member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads());
  if (!c.multi_latent_attention) json.member("head_dim", c.head_dim());
  if (!is_qwen_moe(type))
    json.member("intermediate_size", type == "mixtral" || type == "olmoe" || type == "gpt_oss" ||
                                             type == "granitemoe" || is_width_of_typed_experts(type)
                                         ? c.expert_ffn()
                                         : c.ffn());
  json.member("max_position_embeddings", kept ? kept->positions : c.max_position_embeddings);
  json.member(epsilon_name(type), c.norm_epsilon);
  const bool later_gemma = is_gemma(type) && type != "gemma";
  json.member(later_gemma ? "hidden_activation" : activation_member(type), usual.activation);
  json.member("attention_dropout", c.attention_dropout);
  if (usual.biases == flags)
    json.member("attention_bias", c.add_bias_linear).member("mlp_bias", c.add_bias_linear);
  if (usual.biases == refused) json.member("attention_bias", false);
  if (has_attention_bias(type)) json.member("attention_bias", c.has_qkv_bias());
  if (c.multi_latent_attention)
    write_latent_attention(json, c);
  else
    write_rope(json, c, kept,
               type == "gpt_oss" || type == "cwm" || type == "ministral3" || type == "apertus");
  if (type == "nemotron" && c.rotary_percent == 1)  // half of each head turns by default
    json.member("partial_rotary_factor", 1.0);
  if (is_delta_family(type)) write_delta_family(json, c);
  if (is_dense_family(type)) write_dense_family(json, c, type);
  if (type == "mistral" || type == "mixtral" || type == "qwen2" || type == "qwen3")
    write_windows(json, c, type);
  write_experts(json, c, type);
}

void write_sliding_window(JsonWriter& json, const ModelConfig& c) {
  json.key("sliding_window");
  if (const std::int64_t before = c.tokens_before(); before >= 0)
    json.value(before + 1);
  else
    json.null();
}

void write_needed_window(JsonWriter& json, const ModelConfig& c) {
  if (c.tokens_before() >= 0)
    write_sliding_window(json, c);
  else
    json.member("sliding_window", c.max_position_embeddings);
}

void write_layer_types(JsonWriter& json, const ModelConfig& c) {
  json.key("layer_types").begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(c.window(layer) < 0 ? "full_attention" : "sliding_attention");
  json.end_array();
}

}  // namespace mt
