// What a GGUF file says of rotary positions that are slowed: linear; a factor of each pair, in
// tensors, of a Llama, a Phi-3 or an EXAONE 4; or YaRN, by its own numbers.
#pragma once

#include <string>
#include <vector>

#include "formats/gguf/gguf_settings.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Where a file has by how much channels turn slower: once, or for texts of any length apart.
std::vector<std::string> names_of_factors(const ModelConfig& config, std::string_view architecture);

// Exit::bad_config for what llama.cpp has not for the architecture.  `json` is the config.json that
// says it.
void check_gguf_scaling(const ModelConfig& config, const GgufArchitecture& architecture,
                        const std::string& json);
void add_gguf_scaling(GgufSettingsWriter& to, const ModelConfig& config,
                      const GgufArchitecture& architecture, const std::string& json);

}  // namespace mt
