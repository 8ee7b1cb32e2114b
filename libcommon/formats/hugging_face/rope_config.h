// How a config.json says what turns by positions: rope_theta, partial_rotary_factor and
// rope_scaling, or rope_parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"
#include "formats/hugging_face/hugging_face_config.h"

namespace mt {

// Which part of a head's channels a class turns where nothing is said; none: it turns all of them,
// whatever is said.
std::optional<double> turning_part(std::string_view type);

// The model's heads, positions and attention are read already.
void read_rope(const ConfigJson& json, HuggingFaceConfig& config, double usual_theta);

// How a model's positions are said where the config.json that it was once read from said it in
// words that no setting of ours stands for.
struct KeptPositions {
  std::string scaling;
  std::int64_t positions = 0;
  double base = 0;  // which the scaling may change
};
// `before` is what `original` says; none: our own words do.
std::optional<KeptPositions> positions_of(const JsonObject& before, const std::string& original,
                                          const ModelConfig& model);

// A base as an integer, if it is one.
void write_base(JsonWriter& json, std::string_view name, double base);
// scaled_by_default: the class scales where nothing is said.
void write_rope(JsonWriter& json, const ModelConfig& model,
                const std::optional<KeptPositions>& kept, bool scaled_by_default = false);

}  // namespace mt
