#include "formats/names/gguf.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/gguf/gguf_experts.h"
#include "formats/gguf/gguf_latent.h"
#include "formats/names/meta.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kNames[] = {
    {"embedding.word_embeddings", "token_embd"},
    {"embedding.position_embeddings", "position_embd"},
    {"decoder.final_layernorm", "output_norm"},
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
constexpr ModuleName kGpt2Qkv[] = {{"self_attention.linear_qkv", "attn_qkv", by_kind}};
constexpr ModuleName kLlamaQkv[] = {{"self_attention.linear_qkv", "attn_q", queries},
                                    {"self_attention.linear_qkv", "attn_k", keys},
                                    {"self_attention.linear_qkv", "attn_v", values}};

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "gpt2", .model_type = "gpt2", .layer_norm = true},
    {.name = "llama", .model_type = "llama", .turned = true},
    {.name = "llama", .model_type = "mistral", .turned = true},
    {.name = "llama", .model_type = "mixtral", .turned = true, .experts = GgufExperts::chosen},
    {.name = "qwen2", .model_type = "qwen2"},
    {.name = "qwen2moe", .model_type = "qwen2_moe", .experts = GgufExperts::all},
    {.name = "qwen3", .model_type = "qwen3"},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .experts = GgufExperts::chosen},
    {.name = "olmoe", .model_type = "olmoe", .experts = GgufExperts::all},
    {.name = "deepseek2", .model_type = "deepseek_v2", .experts = GgufExperts::told},
    {.name = "deepseek2", .model_type = "deepseek_v3", .experts = GgufExperts::told},
    {.name = "deepseek2", .model_type = "kimi_k2", .experts = GgufExperts::told},
    {.name = "gemma", .model_type = "gemma", .has_output = false},
    {.name = "gemma2", .model_type = "gemma2", .has_output = false},
    {.name = "gemma3", .model_type = "gemma3_text"},
    {.name = "phi3", .model_type = "phi3"},
    {.name = "olmo2", .model_type = "olmo2"},
    {.name = "granite", .model_type = "granite", .turned = true},
    {.name = "smollm3", .model_type = "smollm3", .turned = true},
    {.name = "command-r", .model_type = "cohere", .layer_norm = true, .has_output = false},
    {.name = "cohere2", .model_type = "cohere2", .layer_norm = true, .has_output = false},
    {.name = "nemotron", .model_type = "nemotron", .layer_norm = true},
    {.name = "phi2", .model_type = "phi", .layer_norm = true},
    {.name = "starcoder2", .model_type = "starcoder2", .layer_norm = true},
    {.name = "stablelm", .model_type = "stablelm", .layer_norm = true},
    {.name = "olmo", .model_type = "olmo", .turned = true, .layer_norm = true},
    {.name = "arcee", .model_type = "arcee", .turned = true},
    {.name = "ernie4_5", .model_type = "ernie4_5"},
};

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name, bool experts) {
  const auto* const found = std::ranges::find_if(kArchitectures, [&](const GgufArchitecture& a) {
    return a.name == name && (a.experts != GgufExperts::none) == experts;
  });
  return found == std::end(kArchitectures) ? nullptr : found;
}

const GgufArchitecture* gguf_architecture_of(std::string_view model_type) {
  const auto* const found =
      std::ranges::find(kArchitectures, model_type, &GgufArchitecture::model_type);
  return found == std::end(kArchitectures) ? nullptr : found;
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
  const std::string layer = row.place.layer ? concat("blk.", *row.place.layer, ".") : "";
  std::vector<ForeignName> names = gguf_expert_tensors(c, row, layer);
  if (names.empty() && c.multi_latent_attention) names = gguf_latent_tensors(c, row, layer);
  if (names.empty() && architecture == "phi3") names = names_in(kPhi3, c, row, layer);
  if (names.empty()) names = names_in(kNames, c, row, layer);
  if (names.empty() && c.post_layernorm) names = names_in(kPostNorms, c, row, layer);
  if (names.empty())
    names = architecture == "gpt2" ? names_in(kGpt2Qkv, c, row, layer)
                                   : names_in(kLlamaQkv, c, row, layer);
  if (names.empty()) fail(Exit::bad_config, row.name(), ": has no place in a GGUF file");
  if (c.apply_layernorm_1p && row.shape.rank() == 1 && row.place.param.ends_with("weight"))
    names[0].transform.push_back(shift(1));
  if (find_gguf_architecture(architecture, c.num_experts > 0)->turned && names.size() == 3)
    for (const std::size_t i : {0, 1}) turn_neighbours(names[i].transform, row.shape, c.head_dim());
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
