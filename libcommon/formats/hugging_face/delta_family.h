// What config.json says of decoders some of whose layers have the gated delta rule: qwen3_next, and
// qwen3_5_text, whose tensors lie otherwise and which has no experts.
#pragma once

#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"

namespace mt {

struct HuggingFaceConfig;
struct ModelConfig;

inline constexpr std::string_view kQwen35 = "qwen3_5_text";
inline bool is_delta_family(std::string_view type) {
  return type == "qwen3_next" || type == kQwen35;
}

// What tensors are called that transformers passes over: of layers that predict further tokens.
inline constexpr const char* kPassedOverByDelta = "mtp.";

// Reads all that a Llama has not, but for experts.
void read_delta_family(const ConfigJson& json, ModelConfig& model);
void write_delta_family(JsonWriter& json, const ModelConfig& model);

}  // namespace mt
