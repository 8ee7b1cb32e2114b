#include "formats/hugging_face/cache_scales.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/names/hugging_face.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/model_table.h"
#include "tensor/param.h"

namespace mt {
namespace {

// The module of a name that ends so; empty where it is no such scale's.
std::string_view module_of(std::string_view key, std::string_view kind,
                           std::string_view projection) {
  if (!key.ends_with(kind)) return {};
  key.remove_suffix(kind.size());
  for (const std::string_view between : {projection, std::string_view(".attn")})
    if (key.ends_with(between)) {
      key.remove_suffix(between.size());
      break;
    }
  return key;
}

// Which layer of a cache (model/layers.h) a row is of; nothing of an encoder's.
std::optional<std::int64_t> cache_layer(const ModelConfig& config, const RowPlace& place) {
  if (place.stack.ends_with("decoder")) return place.layer;
  if (place.inner.empty() || !place.layer) return {};
  const std::int64_t each = std::ssize(further_layers_of(config));
  return config.num_layers + *place.layer * each + place.inner_layer.value_or(0);
}

// Which layer of a cache each module of attention is.
std::map<std::string, std::int64_t> attention_modules(const ModelConfig& config) {
  std::map<std::string, std::int64_t> layers;
  const ParamTable table = model_rows(config);
  for (const Param& row : table.rows()) {
    const std::optional<std::int64_t> layer = cache_layer(config, row.place);
    if (!layer || row.place.param != "weight" || row.place.module != "self_attention.linear_qkv")
      continue;
    for (const ForeignName& name : hugging_face_names(config, row)) {
      const std::string_view whole = name.name;  // ...self_attn.k_proj.weight
      layers.emplace(whole.substr(0, whole.rfind('.', whole.rfind('.') - 1)), *layer);
    }
  }
  return layers;
}

// Whether one is the other, or its end, behind a dot: folders leave out what names begin with, or
// put something in front of it.
bool are_the_same(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == '.');
}

float number_of(const TensorSource& stored, const std::string& key) {
  const Shape& shape = stored.at(key).shape;
  if (shape.numel() != 1)
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", shape, ", expected one number");
  expect_floats(stored, key);
  const float scale = stored_floats(stored, key, origin_of(shape.rank()), shape)[0];
  if (!(scale > 0) || !std::isfinite(scale))
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", scale,
         ", expected a positive number");
  return scale;
}

}  // namespace

std::vector<CacheScales> cache_scales_in(const std::string& folder, const ModelConfig& config) {
  std::vector<CacheScales> scales;
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) return scales;
  const std::unique_ptr<TensorSource> stored = open_tensors(folder);
  std::map<std::string, std::int64_t> layers;
  const auto take = [&](const std::string& key, std::string_view module,
                        float CacheScales::*which) {
    if (module.empty()) return;
    if (layers.empty()) layers = attention_modules(config);
    for (const auto& [name, layer] : layers) {
      if (!are_the_same(name, module)) continue;
      if (std::ssize(scales) <= layer) scales.resize(static_cast<std::size_t>(layer) + 1);
      scales[static_cast<std::size_t>(layer)].*which = number_of(*stored, key);
    }
  };
  for (const auto& [key, tensor] : stored->tensors()) {
    take(key, module_of(key, ".k_scale", ".k_proj"), &CacheScales::keys);
    take(key, module_of(key, ".v_scale", ".v_proj"), &CacheScales::values);
  }
  return scales;
}

}  // namespace mt
