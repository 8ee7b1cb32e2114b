// ExpertConfig: the experts that a Mixtral has instead of MLPs.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

struct ExpertConfig {
  std::int64_t num_experts = 0, moe_router_topk = 2;
  std::int64_t moe_shared_expert_intermediate_size = 0;  // 0: none are shared
  bool moe_shared_expert_gate = false;
  bool moe_router_pre_softmax = false;
  std::string moe_router_score_function = "softmax";
  std::int64_t moe_router_num_groups = 0, moe_router_group_topk = 0;  // 0: no groups
  double moe_router_topk_scaling_factor = 0;                          // 0: none
  bool moe_router_enable_expert_bias = false;
  double moe_router_bias_update_rate = 1e-3;
  std::string moe_router_load_balancing_type = "aux_loss";
  double moe_aux_loss_coeff = 0, moe_z_loss_coeff = 0;

  void check(std::int64_t layers) const;
  bool operator==(const ExpertConfig&) const = default;

 private:
  void check_router() const;
};

}  // namespace mt
