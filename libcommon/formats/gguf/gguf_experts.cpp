#include "formats/gguf/gguf_experts.h"

#include <algorithm>

#include "model/config/model_config.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kRouters[] = {
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.shared_experts.linear_fc1", "ffn_gate_shexp", gate},
    {"mlp.shared_experts.linear_fc1", "ffn_up_shexp", up},
    {"mlp.shared_experts.linear_fc1", "ffn_up_shexp", ungated},
    {"mlp.shared_experts.linear_fc2", "ffn_down_shexp"},
};
constexpr ModuleName kExperts[] = {
    {"experts.linear_fc1", "ffn_gate_exps", gate},
    {"experts.linear_fc1", "ffn_up_exps", up},
    {"experts.linear_fc1", "ffn_up_exps", ungated},
    {"experts.linear_fc2", "ffn_down_exps"},
};
constexpr const char* kGate = "ffn_gate_inp_shexp.weight";

// expert_gating_func.
constexpr std::int64_t kSoftmax = 1, kSigmoid = 2;

// Whose experts are as wide as an MLP.
bool is_as_wide(const GgufArchitecture& known) {
  return known.model_type == "mixtral" || known.model_type == "olmoe" ||
         known.model_type == "granitemoe";
}

// Whose config.json has Mixtral's words.
bool has_words_of_mixtral(std::string_view type) {
  return type == "mixtral" || type == "gpt_oss" || type == "granitemoe";
}

}  // namespace

void check_gguf_experts(const ModelConfig& c, const GgufArchitecture& known) {
  if (known.experts == GgufExperts::sigmoid) {
    if (c.mtp_num_layers > 0)
      fail(Exit::bad_config, "--mtp-num-layers: llama.cpp's ", known.name,
           " has no layers that predict further tokens here; mt-convert --mtp-num-layers 0 leaves "
           "them out");
    return;
  }
  const bool of_all = known.experts == GgufExperts::all;
  if (c.moe_router_pre_softmax != of_all)
    fail(Exit::bad_config, "--moe-router-pre-softmax: llama.cpp computes ", known.name,
         of_all ? " with it" : " without it");
  if (c.has_dense_layers(c.num_layers))
    fail(Exit::bad_config, "--moe-layer-freq ", c.moe_layer_freq, ": all layers of llama.cpp's ",
         known.name, " have experts");
}

void add_gguf_experts(GgufSettingsWriter& to, const ModelConfig& c, const GgufArchitecture& known) {
  if (known.experts == GgufExperts::sigmoid) return add_told_experts(to, c);
  to.size("expert_count", c.num_experts);
  to.size("expert_used_count", c.moe_router_topk);
  if (is_as_wide(known)) return;
  to.size("expert_feed_forward_length", c.expert_ffn());
  if (c.moe_shared_expert_gate)
    to.size("expert_shared_feed_forward_length", c.moe_shared_expert_intermediate_size);
}

void read_gguf_experts(JsonWriter& json, const GgufSettings& file, const GgufArchitecture& known) {
  if (known.experts == GgufExperts::sigmoid) {
    if (!has_sigmoids(file, true))
      fail(Exit::bad_config, file.where("expert_gating_func"), ": is ", kSoftmax, ", expected ",
           kSigmoid);
    return read_told_experts(json, file);
  }
  const bool mixtral = has_words_of_mixtral(known.model_type);
  json.member(mixtral ? "num_local_experts" : "num_experts", file.size("expert_count"));
  json.member("num_experts_per_tok", file.size("expert_used_count"));
  if (mixtral || is_as_wide(known)) return;
  json.member("moe_intermediate_size", file.size("expert_feed_forward_length"));
  json.member("norm_topk_prob", known.experts != GgufExperts::all);
  if (known.model_type != "qwen2_moe") return;
  json.member("shared_expert_intermediate_size", file.size("expert_shared_feed_forward_length"));
  json.member("qkv_bias", file.file().find("blk.0.attn_q.bias") != nullptr);
}

bool has_sigmoids(const GgufSettings& file, bool usual) {
  constexpr const char* kKey = "expert_gating_func";
  const std::int64_t kind = file.size_or(kKey, usual ? kSigmoid : kSoftmax);
  if (kind != kSoftmax && kind != kSigmoid)
    fail(Exit::bad_config, file.where(kKey), ": is ", kind, ", expected ", kSoftmax, " or ",
         kSigmoid);
  return kind == kSigmoid;
}

void add_told_experts(GgufSettingsWriter& to, const ModelConfig& c) {
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  const bool sigmoid = c.moe_router_score_function == "sigmoid";
  to.size("leading_dense_block_count", std::ranges::count(experts, false));
  to.size("expert_count", c.num_experts);
  to.size("expert_used_count", c.moe_router_topk);
  to.size("expert_feed_forward_length", c.expert_ffn());
  to.size("expert_shared_count", c.moe_shared_expert_intermediate_size / c.expert_ffn());
  to.real("expert_weights_scale",
          c.moe_router_topk_scaling_factor == 0 ? 1 : c.moe_router_topk_scaling_factor);
  to.flag("expert_weights_norm", sigmoid);
  to.size("expert_gating_func", sigmoid ? kSigmoid : kSoftmax);
  if (c.moe_router_num_groups == 0) return;
  to.size("expert_group_count", c.moe_router_num_groups);
  to.size("expert_group_used_count", c.moe_router_group_topk);
}

void read_told_experts(JsonWriter& json, const GgufSettings& file) {
  json.member("n_routed_experts", file.size("expert_count"));
  json.member("num_experts_per_tok", file.size("expert_used_count"));
  json.member("moe_intermediate_size", file.size("expert_feed_forward_length"));
  json.member("n_shared_experts", file.size("expert_shared_count"));
  json.key("routed_scaling_factor").raw(file.digits("expert_weights_scale"));
  json.member("norm_topk_prob", file.flag_or("expert_weights_norm", false));
  json.member("n_group", file.size_or("expert_group_count", 1));
  json.member("topk_group", file.size_or("expert_group_used_count", 1));
  json.member("first_k_dense_replace", file.size("leading_dense_block_count"));
}

bool is_gguf_float32(std::string_view tensor) {
  return tensor.ends_with(".ffn_gate_inp.weight") || tensor.ends_with(kGate) ||
         tensor.ends_with(".bias") || tensor.ends_with(".ssm_a") || tensor.ends_with(".ssm_d") ||
         tensor.ends_with(".ssm_norm.weight") || tensor.ends_with(".ssm_conv1d.weight");
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
