// Megatron's flags that mt-pretrain knows and does not support: giving one is an error that says
// why, so that no run differs silently from what its script asks for.
#pragma once

#include "base/command.h"

namespace mt {

void add_refused_flags(CommandLine& cl);

}  // namespace mt
