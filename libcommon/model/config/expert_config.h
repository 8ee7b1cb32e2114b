// ExpertConfig: the experts that a Mixtral has instead of MLPs.
#pragma once

#include <cstdint>

namespace mt {

struct ExpertConfig {
  std::int64_t num_experts = 0, moe_router_topk = 2;
  double moe_aux_loss_coeff = 0;

  void check(std::int64_t layers) const;
};

}  // namespace mt
