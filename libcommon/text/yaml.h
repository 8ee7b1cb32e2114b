// The subset of YAML that lm-evaluation-harness's task files and the settings of Megatron-Energon's
// folders use, read as PyYAML reads it: mappings and lists by indentation or in brackets, plain and
// quoted scalars, block scalars (| and >).  Anchors, tags (!function) and several documents are
// refused.
#pragma once

#include <string_view>

#include "text/chat/chat_value.h"

namespace mt {

// Exit::bad_config, "PATH:LINE: what", for what is not in the subset.
ChatValue parse_yaml(std::string_view text, std::string_view path);

}  // namespace mt
