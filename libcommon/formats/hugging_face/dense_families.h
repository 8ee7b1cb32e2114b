// What config.json says of Gemmas, Phi-3, OLMo 2 and 3, Granite, SmolLM3, Cohere's Command R and
// others beside what it says of a Llama: windows and positions of some layers, norms behind
// branches, multipliers and caps.
#pragma once

#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"

namespace mt {

struct ModelConfig;

inline bool is_gemma(std::string_view type) {
  return type == "gemma" || type == "gemma2" || type == "gemma3_text" || type == "vaultgemma";
}
inline bool is_cohere(std::string_view type) { return type == "cohere" || type == "cohere2"; }
// Whether channels beside each other turn together.
inline bool turns_neighbours(std::string_view type) {
  return type == "glm" || type == "glm4" || type == "ernie4_5" || type == "helium";
}
// Whether the type is one of these families'.
bool is_dense_family(std::string_view type);

// A Granite's multipliers, of whatever layers.
void read_granite_multipliers(const ConfigJson& json, ModelConfig& model);
void write_granite_multipliers(JsonWriter& json, const ModelConfig& model);

// Completes a model that is read as a Llama's; others stay.
void read_dense_family(const ConfigJson& json, ModelConfig& model);

// The reverse.
void write_dense_family(JsonWriter& json, const ModelConfig& model, std::string_view type);

}  // namespace mt
