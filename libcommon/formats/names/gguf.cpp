#include "formats/names/gguf.h"

#include "formats/hugging_face/hugging_face_source.h"
#include "formats/names/meta.h"

namespace mt {
namespace {

struct Name {
  std::string_view hugging_face, gguf;
};
constexpr Name kNames[] = {
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight".
std::string gguf_name(std::string_view name) {
  std::string layer;
  for (const std::string_view prefix : {"transformer.", "model.", "h.", "layers."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (prefix != "h." && prefix != "layers.") continue;
    layer = concat("blk.", name.substr(0, name.find('.') + 1));
    name.remove_prefix(name.find('.') + 1);
  }
  const std::size_t dot = name.rfind('.');
  for (const Name& known : kNames)
    if (name.substr(0, dot) == known.hugging_face)
      return concat(layer, known.gguf, name.substr(dot));
  fail(Exit::bad_config, name, ": has no place in a GGUF file");
}

bool is_rotated(std::string_view name) {
  return name.find("self_attn.q_proj.") != std::string_view::npos ||
         name.find("self_attn.k_proj.") != std::string_view::npos;
}

// What makes a row the tensor that Hugging Face calls so.
Transform transform_of(const std::string& architecture, const ModelConfig& c, const Param& row,
                       const ForeignName& name) {
  Transform transform = name.transform;
  if (!transform.empty() && transform.back().kind == Rearrange::Kind::transpose)
    transform.pop_back();
  // llama.cpp keeps Meta's order.
  if (architecture == "llama" && is_rotated(name.name))
    turn_neighbours(transform, row.shape, c.head_dim());
  return transform;
}

}  // namespace

std::vector<ForeignName> gguf_tensors(const std::string& architecture, const ModelConfig& c,
                                      const Param& row) {
  std::vector<ForeignName> tensors;
  for (const ForeignName& name : hugging_face_names(row))
    tensors.push_back(
        {kGgufFormat, gguf_name(name.name), transform_of(architecture, c, row, name)});
  return tensors;
}

std::vector<float> frequency_factors(const ModelConfig& c) {
  ModelConfig plain = c;
  plain.use_rope_scaling = false;
  const std::vector<double> scaled = c.rotary_frequencies(), whole = plain.rotary_frequencies();
  std::vector<float> factors;
  for (std::size_t i = 0; i < scaled.size(); ++i)
    factors.push_back(static_cast<float>(whole[i] / scaled[i]));
  return factors;
}

}  // namespace mt
