// YAML, as PyYAML's safe loader reads it: libyaml parses, and plain scalars are what YAML 1.1's
// patterns make of them there ("1e5", without a point, is a text).  Other than there, keys are
// texts as they are written, dates and numbers with colons stay texts, and a key that stands twice
// in a mapping is refused.
#pragma once

#include <string_view>

#include "base/error.h"
#include "text/chat/chat_value.h"

namespace mt {

struct YamlRules {
  Exit code = Exit::bad_config;  // of what is refused
  // As OmegaConf reads the settings that Megatron Bridge writes: "1e-5" is a number, and tags but
  // YAML's own, Python's objects for one, are passed over, so that a value is what it looks like.
  bool omegaconf = false;
};

// The one document that `text` is; None of an empty one.  What is refused is told as "PATH:LINE:
// what", among it documents that nest deeper than 64.
ChatValue parse_yaml(std::string_view text, std::string_view path, const YamlRules& rules = {});

}  // namespace mt
