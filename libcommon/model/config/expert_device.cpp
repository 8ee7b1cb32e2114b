#include "model/config/expert_device.h"

#include "base/error.h"
#include "model/config/expert_config.h"

namespace mt {

void check_experts_on(Device device, const ExpertConfig& config) {
  if (device != Device::cuda || config.num_experts == 0) return;
  const auto refuse_if = [](bool wrong, const char* flag) {
    if (wrong) fail(Exit::bad_config, flag, ": on the CPU alone; see --device cpu");
  };
  refuse_if(config.has_quantiles(), "--moe-router-load-balancing-type quantile_balancing");
}

}  // namespace mt
