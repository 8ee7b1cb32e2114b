#include "formats/hugging_face/delta_family.h"

#include <algorithm>
#include <vector>

#include "formats/hugging_face/hugging_face_config.h"

namespace mt {

constexpr const char *kLinear = "linear_attention", *kFull = "full_attention",
                     *kTypes = "layer_types";

// Of each layer whether it has the rule: as they are listed, or all but each last of so many.
static std::vector<bool> linear_layers(const ConfigJson& json, std::int64_t layers) {
  std::vector<bool> linear;
  if (!json.has(kTypes)) {
    const std::int64_t period = json.count_or("full_attention_interval", 4);
    for (std::int64_t i = 1; i <= layers; ++i) linear.push_back(i % period != 0);
    return linear;
  }
  simdjson::dom::array types;
  if (json.member(kTypes).get(types)) json.refuse(json_quoted(kTypes), ": expected a list");
  for (const simdjson::dom::element element : types) {
    std::string_view type;
    if (element.get(type) || (type != kLinear && type != kFull))
      json.refuse(json_quoted(kTypes), ": expected ", json_quoted(kLinear), " or ",
                  json_quoted(kFull));
    linear.push_back(type == kLinear);
  }
  if (std::ssize(linear) != layers)
    json.refuse(json_quoted(kTypes), ": ", linear.size(), " layers, expected ", layers);
  return linear;
}

// N where all but every Nth layer is linear, else a list.
static std::string freq_of(const std::vector<bool>& linear) {
  const auto first_full = std::ranges::find(linear, false) - linear.begin() + 1;
  DeltaConfig config{.experimental_attention_variant = kGatedDeltaNet,
                     .linear_attention_freq = std::to_string(first_full)};
  if (config.linear_layers(std::ssize(linear)) == linear) return config.linear_attention_freq;
  std::string list = "[";
  for (const bool is : linear) list += is ? "1," : "0,";
  list.back() = ']';
  return list;
}

void read_delta_family(const ConfigJson& json, ModelConfig& c) {
  c.attention_output_gate = true;
  const std::vector<bool> linear = linear_layers(json, c.num_layers);
  if (std::ranges::count(linear, true) == 0) return;
  c.experimental_attention_variant = kGatedDeltaNet;
  c.linear_attention_freq = freq_of(linear);
  c.linear_conv_kernel_dim = json.count_or("linear_conv_kernel_dim", 4);
  c.linear_key_head_dim = json.count_or("linear_key_head_dim", 128);
  c.linear_value_head_dim = json.count_or("linear_value_head_dim", 128);
  c.linear_num_key_heads = json.count_or("linear_num_key_heads", 16);
  c.linear_num_value_heads = json.count_or("linear_num_value_heads", 32);
}

void write_delta_family(JsonWriter& json, const ModelConfig& c) {
  if (c.rotary_percent == 1) json.member("partial_rotary_factor", 1.0);  // by default a quarter
  json.member("linear_conv_kernel_dim", c.linear_conv_kernel_dim);
  json.member("linear_key_head_dim", c.linear_key_head_dim);
  json.member("linear_value_head_dim", c.linear_value_head_dim);
  json.member("linear_num_key_heads", c.linear_num_key_heads);
  json.member("linear_num_value_heads", c.linear_num_value_heads);
  json.key(kTypes).begin_array();
  for (const bool linear : c.linear_layers(c.num_layers)) json.value(linear ? kLinear : kFull);
  json.end_array();
}

}  // namespace mt
