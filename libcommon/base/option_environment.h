// Variables of the environment that look like options (MT_NUM_LAYER) and that no program reads.
#pragma once

#include <string>
#include <vector>

#include "base/option.h"

namespace mt {

// A line for each variable MT_... that is set, and is no option of `table` nor one that a man page
// knows, of another program or, as MT_KERNELS, of none: its name, and the option that is nearest.
// A variable that is named is taken out of the environment, so that processes that this one starts
// do not name it again.
std::vector<std::string> unknown_variables(const OptionTable& table);

}  // namespace mt
