// What llama.cpp knows of the families of dense_families.h, beside what it knows of a Llama; much
// of it is written into its code, and a model that has it otherwise is refused.
#pragma once

#include <string>

#include "base/json.h"
#include "formats/gguf/gguf_settings.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_family(const ModelConfig& config, const GgufArchitecture& architecture);

void add_gguf_family(GgufSettingsWriter& to, const ModelConfig& config,
                     const GgufArchitecture& architecture);

// What a file of the architecture computes otherwise than transformers does; empty: nothing.
std::string gguf_family_warning(const ModelConfig& config, const GgufArchitecture& architecture);

// The reverse: members of a config.json, of so many layers with heads of so many channels.
struct GgufSizes {
  std::int64_t layers = 0, hidden_size = 0, heads = 0, head_dim = 0;
};
void read_gguf_family(JsonWriter& json, const GgufSettings& file,
                      const GgufArchitecture& architecture, const GgufSizes& sizes);

}  // namespace mt
