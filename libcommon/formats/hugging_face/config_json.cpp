#include "formats/hugging_face/config_json.h"

#include <algorithm>
#include <cmath>

namespace mt {

ConfigJson ConfigJson::as(const JsonObject& object, std::string_view type) {
  ConfigJson json(object, type);
  json.type_ = type;
  return json;
}

bool ConfigJson::is_null(std::string_view name) const {
  return !has(name) && std::ranges::count(names(), name) > 0;
}

bool ConfigJson::flag_or(std::string_view name, bool other) const {
  return JsonObject::flag_or(name, is_null(name) ? false : other);
}

std::int64_t ConfigJson::size_or(const char* name, std::int64_t other) const {
  return has(name) ? size(name) : other;
}

std::int64_t ConfigJson::count_or(const char* name, std::int64_t other) const {
  const std::int64_t count = size_or(name, other);
  if (count < 1) refuse(json_quoted(name), " is ", count, ", expected at least 1");
  return count;
}

double ConfigJson::real_or(const char* name, double other) const {
  return has(name) ? real(name) : other;
}

double ConfigJson::positive_or(const char* name, double other) const {
  const double value = real_or(name, other);
  if (has(name) && !(value > 0 && std::isfinite(value)))
    refuse(json_quoted(name), " is ", value, ", expected more than 0");
  return value;
}

void ConfigJson::expect_text(const char* name, std::string_view expected) const {
  if (text_or(name, expected) != expected)
    refuse(json_quoted(name), " is ", json_quoted(text(name)), ", expected ",
           json_quoted(expected));
}

void ConfigJson::expect_flag(const char* name, bool expected) const {
  if (flag_or(name, expected) != expected)
    refuse(json_quoted(name), " is ", expected ? "false" : "true", ", which is not supported");
}

void ConfigJson::expect_number(const char* name, std::int64_t expected) const {
  if (has(name) && size(name) != expected)
    refuse(json_quoted(name), " is ", size(name), ", expected ", expected);
}

void ConfigJson::expect_causal() const {
  if (!flag_or("is_causal", true)) refuse("\"is_causal\" is not true, which is not supported");
}

std::string ConfigJson::window_size() const {
  return concat(count_or("sliding_window", 4096) - 1, ",0");
}

std::optional<std::vector<bool>> ConfigJson::layers_that_are(const char* name,
                                                             std::string_view word,
                                                             std::string_view other,
                                                             std::int64_t layers) const {
  simdjson::dom::array list;
  if (!has(name)) return {};
  if (member(name).get(list) || static_cast<std::int64_t>(list.size()) != layers)
    refuse(json_quoted(name), ": expected one for each layer");
  std::vector<bool> found;
  for (const simdjson::dom::element entry : list) {
    std::string_view kind;
    if (entry.get(kind) || (kind != word && kind != other))
      refuse(json_quoted(name), ": expected ", word, " or ", other);
    found.push_back(kind == word);
  }
  return found;
}

std::optional<std::vector<bool>> ConfigJson::sliding_layers(std::int64_t layers) const {
  return layers_that_are("layer_types", "sliding_attention", "full_attention", layers);
}

std::optional<std::vector<bool>> ConfigJson::sparse_layers(std::int64_t layers) const {
  return layers_that_are("mlp_layer_types", "sparse", "dense", layers);
}

bool is_erf_gelu(std::string_view name) { return name == "gelu" || name == "gelu_python"; }
bool is_tanh_gelu(std::string_view name) {
  return name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_python_tanh" ||
         name == "gelu_fast" || name == "gelu_accurate";
}
bool is_silu(std::string_view name) { return name == "silu" || name == "swish"; }

}  // namespace mt
