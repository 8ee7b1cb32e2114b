#include "formats/gguf/gguf_experts.h"

#include "model/config/model_config.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kRouters[] = {
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.shared_experts.linear_fc1", "ffn_gate_shexp", gate},
    {"mlp.shared_experts.linear_fc1", "ffn_up_shexp", up},
    {"mlp.shared_experts.linear_fc2", "ffn_down_shexp"},
};
constexpr ModuleName kExperts[] = {
    {"experts.linear_fc1", "ffn_gate_exps", gate},
    {"experts.linear_fc1", "ffn_up_exps", up},
    {"experts.linear_fc2", "ffn_down_exps"},
};
constexpr const char* kGate = "ffn_gate_inp_shexp.weight";

// Whose experts are as wide as an MLP.
bool is_as_wide(const GgufArchitecture& known) {
  return known.model_type == "mixtral" || known.model_type == "olmoe";
}

}  // namespace

void check_gguf_experts(const ModelConfig& c, const GgufArchitecture& known) {
  const bool of_all = known.experts == GgufExperts::all;
  if (c.moe_router_pre_softmax != of_all)
    fail(Exit::bad_config, "--moe-router-pre-softmax: llama.cpp computes ", known.name,
         of_all ? " with it" : " without it");
  if (c.has_dense_layers(c.num_layers))
    fail(Exit::bad_config, "--moe-layer-freq ", c.moe_layer_freq, ": all layers of llama.cpp's ",
         known.name, " have experts");
}

void add_gguf_experts(GgufKeyValues& to, const ModelConfig& c, const GgufArchitecture& known) {
  const auto size = [&](const char* key, std::int64_t value) {
    to.integer(concat(known.name, ".", key), static_cast<std::uint32_t>(value));
  };
  size("expert_count", c.num_experts);
  size("expert_used_count", c.moe_router_topk);
  if (is_as_wide(known)) return;
  size("expert_feed_forward_length", c.expert_ffn());
  if (c.moe_shared_expert_gate)
    size("expert_shared_feed_forward_length", c.moe_shared_expert_intermediate_size);
}

void read_gguf_experts(JsonWriter& json, const GgufReader& file, const GgufArchitecture& known) {
  const auto size = [&](const char* name) {
    const std::string key = concat(known.name, ".", name);
    return file.value(key).as_integer(concat(file.path(), ": ", key));
  };
  const bool mixtral = known.model_type == "mixtral";
  json.member(mixtral ? "num_local_experts" : "num_experts", size("expert_count"));
  json.member("num_experts_per_tok", size("expert_used_count"));
  if (is_as_wide(known)) return;
  json.member("moe_intermediate_size", size("expert_feed_forward_length"));
  json.member("norm_topk_prob", known.experts != GgufExperts::all);
  if (known.model_type != "qwen2_moe") return;
  json.member("shared_expert_intermediate_size", size("expert_shared_feed_forward_length"));
  json.member("qkv_bias", file.find("blk.0.attn_q.bias") != nullptr);
}

bool is_gguf_router(std::string_view tensor) {
  return tensor.ends_with(".ffn_gate_inp.weight") || tensor.ends_with(kGate);
}

std::vector<ForeignName> gguf_expert_tensors(const ModelConfig& c, const Param& row,
                                             const std::string& layer) {
  if (row.place.param == "expert_bias") return {{layer + "exp_probs_b.bias"}};
  if (row.place.param == "gate_weight") return {{layer + kGate}};
  if (!row.place.expert) return names_in(kRouters, c, row, layer);
  std::vector<ForeignName> names = names_in(kExperts, c, row, layer);
  for (ForeignName& name : names) {
    name.part = *row.place.expert;
    name.parts = row.experts;
  }
  return names;
}

}  // namespace mt
