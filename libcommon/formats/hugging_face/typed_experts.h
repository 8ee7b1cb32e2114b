// What config.json says of experts in families that only their model_type tells from others, which
// the settings of a model keep as its hf_model_type: granitemoeshared, flex_olmo,
// minimax_m2, solar_open, exaone_moe, hunyuan_v1_moe and hy_v3.
#pragma once

#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"

namespace mt {

struct HuggingFaceConfig;
struct ModelConfig;

bool has_typed_experts(std::string_view type);
// Whether intermediate_size is an expert's width there.
bool is_width_of_typed_experts(std::string_view type);

void read_typed_experts(const ConfigJson& json, HuggingFaceConfig& config);
void write_typed_experts(JsonWriter& json, const ModelConfig& model, std::string_view type);

}  // namespace mt
