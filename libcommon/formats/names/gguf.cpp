#include "formats/names/gguf.h"

#include "formats/gguf/gguf_experts.h"
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
constexpr ModuleName kGpt2Qkv[] = {{"self_attention.linear_qkv", "attn_qkv", by_kind}};
constexpr ModuleName kLlamaQkv[] = {{"self_attention.linear_qkv", "attn_q", queries},
                                    {"self_attention.linear_qkv", "attn_k", keys},
                                    {"self_attention.linear_qkv", "attn_v", values}};

}  // namespace

std::vector<ForeignName> gguf_tensors(const std::string& architecture, const ModelConfig& c,
                                      const Param& row) {
  const std::string layer = row.place.layer ? concat("blk.", *row.place.layer, ".") : "";
  std::vector<ForeignName> names = gguf_expert_tensors(c, row, layer);
  if (names.empty()) names = names_in(kNames, c, row, layer);
  if (names.empty())
    names = architecture == "gpt2" ? names_in(kGpt2Qkv, c, row, layer)
                                   : names_in(kLlamaQkv, c, row, layer);
  if (names.empty()) fail(Exit::bad_config, row.name(), ": has no place in a GGUF file");
  if (architecture == "llama" && names.size() == 3)  // queries and keys are in Meta's order
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
