// YAML, as the settings that lie beside a checkpoint are written in it: one document of block
// mappings, block sequences, scalars plain, quoted or literal, flow collections, comments, anchors
// and aliases.  Plain scalars are what YAML 1.1 makes of them.  Tags are passed over: a value is
// what it looks like.  Refused by name are complex keys ("? ") and directives ("%").
#pragma once

#include <string>
#include <string_view>

#include "ckpt/pickle.h"

namespace mt {

// Mappings become dicts with keys as texts, sequences lists.  Exit::bad_data "PATH:LINE: ..." for
// what is no such document, or nests deeper than kMaxYamlNesting.
PyValue parse_yaml(std::string_view text, const std::string& path);

inline constexpr int kMaxYamlNesting = 100;

}  // namespace mt
