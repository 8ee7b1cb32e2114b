// What of experts the CPU alone computes.
#pragma once

#include "tensor/tensor.h"

namespace mt {

struct ExpertConfig;

// Exit::bad_config where a device does not compute what these experts and their routers are.
void check_experts_on(Device device, const ExpertConfig& config);

}  // namespace mt
