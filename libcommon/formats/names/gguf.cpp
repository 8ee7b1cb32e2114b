#include "formats/names/gguf.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/gguf/gguf_bert.h"
#include "formats/gguf/gguf_experts.h"
#include "formats/gguf/gguf_latent.h"
#include "formats/gguf/gguf_mamba.h"
#include "formats/names/meta.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kNames[] = {
    {"embedding.word_embeddings", "token_embd"},
    {"embedding.position_embeddings", "position_embd"},
    {"decoder.final_layernorm", "output_norm"},
    {"decoder.final_norm", "output_norm"},
    {"output_layer", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attention.q_layernorm", "attn_q_norm"},
    {"self_attention.k_layernorm", "attn_k_norm"},
    {"self_attention.linear_proj", "attn_output"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"mlp.linear_fc1", "ffn_up", ungated},
    {"mlp.linear_fc1", "ffn_gate", gate},
    {"mlp.linear_fc1", "ffn_up", up},
    {"mlp.linear_fc2", "ffn_down"},
};
// Where branches have norms behind them.
constexpr ModuleName kPostNorms[] = {
    {"self_attention.linear_proj.post_layernorm", "post_attention_norm"},
    {"mlp.linear_fc2.post_layernorm", "post_ffw_norm"},
};
constexpr ModuleName kPhi3[] = {{"self_attention.linear_qkv", "attn_qkv", by_kind},
                                {"mlp.linear_fc1", "ffn_up"}};
constexpr ModuleName kGlm[] = {{"mlp.linear_fc1", "ffn_up"}};
constexpr ModuleName kQkv[] = {{"self_attention.linear_qkv", "attn_qkv", by_kind}};
constexpr ModuleName kSecondNorm[] = {{"pre_mlp_layernorm", "post_attention_norm"}};
constexpr ModuleName kOneNorm[] = {{"pre_mlp_layernorm", "attn_norm"},
                                   {"mlp.fc1_latent_proj", "ffn_latent_down"},
                                   {"mlp.fc2_latent_proj", "ffn_latent_up"}};
// Where attention and MLP have a norm each.
constexpr ModuleName kFalconNorms[] = {{"input_layernorm", "attn_norm_2"},
                                       {"pre_mlp_layernorm", "attn_norm"}};
// What an architecture calls otherwise than a Llama.
constexpr std::pair<std::string_view, std::span<const ModuleName>> kOwnNames[] = {
    {"gpt2", kQkv},
    {"phi3", kPhi3},
    {"chatglm", kGlm},
    {"glm4", kGlm},
    {"gptneox", kQkv},
    {"falcon", kQkv},
    {"gpt-oss", kSecondNorm},
    {"glm4moe", kSecondNorm},
    {"seed_oss", kSecondNorm},
    {"nemotron_h", kOneNorm},
    {"nemotron_h_moe", kOneNorm},
};
constexpr ModuleName kLlamaQkv[] = {{"self_attention.linear_qkv", "attn_q", queries},
                                    {"self_attention.linear_qkv", "attn_k", keys},
                                    {"self_attention.linear_qkv", "attn_v", values}};

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "gpt2", .model_type = "gpt2", .layer_norm = true},
    {.name = "llama", .model_type = "llama", .turned = true},
    {.name = "llama", .model_type = "mistral", .turned = true},
    {.name = "llama", .model_type = "internlm3", .turned = true},
    {.name = "llama", .model_type = "ministral", .turned = true},
    {.name = "llama", .model_type = "mixtral", .turned = true, .experts = GgufExperts::chosen},
    {.name = "qwen2", .model_type = "qwen2"},
    {.name = "qwen2moe",
     .model_type = "qwen2_moe",
     .wants_output = true,
     .experts = GgufExperts::all},
    {.name = "qwen3", .model_type = "qwen3"},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .experts = GgufExperts::chosen},
    {.name = "olmoe", .model_type = "olmoe", .wants_output = true, .experts = GgufExperts::all},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .wants_output = true,
     .experts = GgufExperts::chosen},
    {.name = "glm4moe", .model_type = "glm4_moe", .experts = GgufExperts::sigmoid},
    {.name = "dots1", .model_type = "dots1", .wants_output = true, .experts = GgufExperts::sigmoid},
    {.name = "granitemoe",
     .model_type = "granitemoe",
     .turned = true,
     .experts = GgufExperts::chosen},
    {.name = "deepseek2", .model_type = "deepseek_v2", .experts = GgufExperts::told},
    {.name = "deepseek2", .model_type = "deepseek_v3", .experts = GgufExperts::told},
    {.name = "deepseek2", .model_type = "kimi_k2", .experts = GgufExperts::told},
    {.name = "gemma", .model_type = "gemma", .has_output = false},
    {.name = "gemma2", .model_type = "gemma2", .has_output = false},
    {.name = "gemma3", .model_type = "gemma3_text"},
    {.name = "phi3", .model_type = "phi3"},
    {.name = "olmo2", .model_type = "olmo2", .wants_output = true},
    {.name = "olmo2", .model_type = "olmo3", .wants_output = true},
    {.name = "exaone4", .model_type = "exaone4"},
    {.name = "chatglm", .model_type = "glm"},
    {.name = "glm4", .model_type = "glm4"},
    {.name = "seed_oss", .model_type = "seed_oss"},
    {.name = "gptneox", .model_type = "gpt_neox", .layer_norm = true, .wants_output = true},
    {.name = "falcon", .model_type = "falcon", .layer_norm = true},
    {.name = "granite", .model_type = "granite", .turned = true},
    {.name = "smollm3", .model_type = "smollm3", .turned = true},
    {.name = "command-r", .model_type = "cohere", .layer_norm = true, .has_output = false},
    {.name = "cohere2", .model_type = "cohere2", .layer_norm = true, .has_output = false},
    {.name = "nemotron", .model_type = "nemotron", .layer_norm = true, .wants_output = true},
    {.name = "phi2", .model_type = "phi", .layer_norm = true, .wants_output = true},
    {.name = "starcoder2", .model_type = "starcoder2", .layer_norm = true},
    {.name = "stablelm", .model_type = "stablelm", .layer_norm = true, .wants_output = true},
    {.name = "olmo", .model_type = "olmo", .turned = true, .layer_norm = true},
    {.name = "arcee", .model_type = "arcee", .turned = true},
    {.name = "ernie4_5", .model_type = "ernie4_5"},
    {.name = "bert", .model_type = "bert", .layer_norm = true, .bert = true},
    {.name = "bert", .model_type = "roberta", .layer_norm = true, .bert = true},
    {.name = "bert", .model_type = "xlm-roberta", .layer_norm = true, .bert = true},
    {.name = "bert", .model_type = "camembert", .layer_norm = true, .bert = true},
    {.name = "bert", .model_type = "distilbert", .layer_norm = true, .bert = true},
    {.name = "mamba2", .model_type = "mamba2", .mamba = true},
    {.name = "nemotron_h", .model_type = "nemotron_h", .mamba = true},
    {.name = "nemotron_h_moe",
     .model_type = "nemotron_h",
     .experts = GgufExperts::told,
     .mamba = true},
    {.name = "granitehybrid", .model_type = "granitemoehybrid", .turned = true, .mamba = true},
    {.name = "granitehybrid",
     .model_type = "granitemoehybrid",
     .turned = true,
     .experts = GgufExperts::told,
     .mamba = true},
};

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name, bool experts) {
  const auto* const found = std::ranges::find_if(kArchitectures, [&](const GgufArchitecture& a) {
    return a.name == name && (a.experts != GgufExperts::none) == experts;
  });
  return found == std::end(kArchitectures) ? nullptr : found;
}

const GgufArchitecture* gguf_architecture_of(std::string_view model_type, bool experts) {
  const GgufArchitecture* found = nullptr;
  for (const GgufArchitecture& known : kArchitectures)
    if (known.model_type == model_type &&
        (found == nullptr || (known.experts != GgufExperts::none) == experts))
      found = &known;
  return found;
}

std::string gguf_architectures() {
  std::string names;
  std::string_view last;
  for (const GgufArchitecture& known : kArchitectures)
    if (known.name != std::exchange(last, known.name))
      names += concat(names.empty() ? "" : ", ", known.name);
  return names;
}

std::vector<ForeignName> gguf_tensors(const std::string& architecture, const ModelConfig& c,
                                      const Param& row) {
  if (c.family == ModelFamily::bert) return gguf_bert_tensors(c, row);
  const std::string layer = gguf_mamba_layer(c, row);
  std::vector<ForeignName> names = gguf_expert_tensors(c, row, layer);
  if (names.empty() && c.family == ModelFamily::mamba) names = gguf_mamba_tensors(c, row, layer);
  if (names.empty() && c.multi_latent_attention) names = gguf_latent_tensors(c, row, layer);
  if (row.place.param == "softmax_offset") names = {{layer + "attn_sinks.weight"}};
  if (names.empty() && architecture == "falcon" && c.parallel_norms)
    names = names_in(kFalconNorms, c, row, layer);
  const auto* const own =
      std::ranges::find(kOwnNames, architecture, [](const auto& known) { return known.first; });
  if (names.empty() && own != std::end(kOwnNames)) names = names_in(own->second, c, row, layer);
  if (names.empty()) names = names_in(kNames, c, row, layer);
  if (names.empty() && c.post_layernorm) names = names_in(kPostNorms, c, row, layer);
  if (names.empty()) names = names_in(kLlamaQkv, c, row, layer);
  if (names.empty()) fail(Exit::bad_config, row.name(), ": has no place in a GGUF file");
  if (c.apply_layernorm_1p && row.shape.rank() == 1 && row.place.param.ends_with("weight"))
    names[0].transform.push_back(shift(1));
  if (find_gguf_architecture(architecture, c.num_experts > 0)->turned && names.size() == 3)
    for (const std::size_t i : {0, 1}) turn_neighbours(names[i].transform, row.shape, c.head_dim());
  return names;
}

std::optional<ForeignName> joined_gguf_qkv(const std::string& architecture, const ModelConfig& c,
                                           const Param& row) {
  const bool experts = c.num_experts > 0;
  if (!row.place.layer || find_gguf_architecture(architecture, experts)->turned) return {};
  const std::vector<ForeignName> names = names_in(kQkv, c, row, gguf_mamba_layer(c, row));
  return names.empty() ? std::nullopt : std::optional(names[0]);
}

bool has_gguf_output(std::string_view architecture, const ModelConfig& c) {
  return c.untie_embeddings_and_output_weights ||
         find_gguf_architecture(architecture, c.num_experts > 0)->wants_output;
}

std::vector<ForeignName> written_gguf_tensors(const std::string& architecture, const ModelConfig& c,
                                              const Param& row) {
  std::vector<ForeignName> names = gguf_tensors(architecture, c, row);
  if (!names.empty() && names[0].name == kGgufWords && !c.untie_embeddings_and_output_weights &&
      has_gguf_output(architecture, c))
    names.push_back({kGgufOutput, names[0].transform});
  return names;
}

bool has_frequency_factors(const ModelConfig& c) {
  return c.use_rope_scaling || !c.rope_frequency_factors.empty();
}

std::vector<float> frequency_factors(const ModelConfig& c) {
  ModelConfig plain = c;
  plain.use_rope_scaling = false;
  plain.rope_frequency_factors.clear();
  const std::vector<double> scaled = c.rotary_frequencies(), whole = plain.rotary_frequencies();
  std::vector<float> factors;
  for (std::size_t i = 0; i < scaled.size(); ++i)
    factors.push_back(static_cast<float>(whole[i] / scaled[i]));
  return factors;
}

}  // namespace mt
