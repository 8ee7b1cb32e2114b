// Decoders with latent attention: youtu, which has no experts, deepseek_v2, whose experts softmaxes
// choose, deepseek_v3, whose experts sigmoids with biases do, and kimi_k2 and glm4_moe_lite, which
// are the same in other sizes.
#pragma once

#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"
#include "formats/hugging_face/hugging_face_config.h"

namespace mt {

bool is_latent_family(std::string_view type);
bool has_latent_experts(std::string_view type);  // it is one, and has some

// Before positions are read, and behind the sizes of a decoder.
void read_latent_attention(const ConfigJson& json, HuggingFaceConfig& config);
// YaRN, as rope_scaling or rope_parameters have it.
void read_latent_scaling(const JsonObject& rope, const ConfigJson& json, ModelConfig& model);
void read_latent_experts(const ConfigJson& json, HuggingFaceConfig& config);

// Which of them a model is; Exit::bad_config: none.
std::string_view latent_type(const ModelConfig& model);
void write_latent_attention(JsonWriter& json, const ModelConfig& model);
void write_latent_experts(JsonWriter& json, const ModelConfig& model, std::string_view type);

}  // namespace mt
