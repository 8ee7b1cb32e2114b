// ExpertConfig: the experts that a Mixtral has instead of MLPs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct ExpertConfig {
  std::int64_t num_experts = 0, moe_router_topk = 2;
  std::string moe_layer_freq = "1";                      // see experts_of_layers()
  std::optional<std::int64_t> moe_ffn_hidden_size;       // of each; by default that of an MLP
  std::int64_t moe_shared_expert_intermediate_size = 0;  // 0: none are shared
  bool moe_shared_expert_gate = false;
  std::int64_t moe_latent_size = 0;  // of what experts read and make; 0: the hidden states'
  std::optional<std::string>
      moe_router_dtype;  // what logits are computed in, where not as all else
  bool moe_router_pre_softmax = false;
  std::string moe_router_score_function = "softmax";
  std::int64_t moe_router_num_groups = 0, moe_router_group_topk = 0;  // 0: no groups
  std::string moe_router_group_score = "topsum";                      // or max: DeepSeek-V2's
  double moe_router_topk_scaling_factor = 0;                          // 0: none
  bool moe_router_enable_expert_bias = false;
  double moe_router_bias_update_rate = 1e-3;
  // Losses by which all experts are chosen as often, and what each weighs; or another way alone.
  std::vector<std::string> moe_router_load_balancing_type = {"aux_loss"};
  std::vector<double> moe_aux_loss_coeff = {0};
  double moe_router_quantile_balancing_ema = 0;  // what biases keep of what they were
  double moe_input_jitter_eps = 0, moe_z_loss_coeff = 0;
  double moe_expert_capacity_factor = 0;  // of the tokens that are an expert's share; 0: of all
  std::string moe_token_drop_policy = "probs";

  bool balances_by(std::string_view type) const;
  bool has_sinkhorn() const { return balances_by("sinkhorn"); }
  bool has_quantiles() const { return balances_by("quantile_balancing"); }
  // Whether routers choose evenly by themselves, or not, and have no loss of their choices.
  bool has_no_balance_loss() const {
    return has_sinkhorn() || has_quantiles() || balances_by("none");
  }
  double aux_loss_coeff(std::string_view type) const;  // 0: it has no such loss
  void check(std::int64_t layers) const;
  // Of each layer whether it has experts: moe_layer_freq is N, by which every Nth from the first
  // does, or a list as Python has it, [0]*3+[1]*29 say.  Exit::bad_config where it is neither.
  std::vector<bool> experts_of_layers(std::int64_t layers) const;
  bool has_dense_layers(std::int64_t layers) const;
  // The same said shortest: a number, or a list of each layer's 0 or 1.
  std::string shortest_freq(std::int64_t layers) const;
  bool operator==(const ExpertConfig&) const = default;

 private:
  void check_balance() const;
  void check_router() const;
  void check_sinkhorn() const;
  void check_quantiles() const;
};

}  // namespace mt
