#include "formats/hugging_face/cache_scales.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "formats/hugging_face/packed_tensors.h"

namespace mt {
namespace {

constexpr std::int64_t kMostLayers = 10000;

// The layer of a name that ends so; -1 where it is no such scale's.
std::int64_t layer_of(std::string_view key, std::string_view kind, std::string_view projection) {
  const std::string_view all = key;
  constexpr std::string_view kLayers = "layers.", kModule = ".self_attn";
  if (!key.ends_with(kind)) return -1;
  key.remove_suffix(kind.size());
  for (const std::string_view between : {projection, std::string_view(".attn")})
    if (key.ends_with(between)) {
      key.remove_suffix(between.size());
      break;
    }
  if (!key.ends_with(kModule)) return -1;
  key.remove_suffix(kModule.size());
  const std::size_t at = key.rfind(kLayers);
  if (at == std::string_view::npos || (at > 0 && all[at - 1] != '.')) return -1;
  key.remove_prefix(at + kLayers.size());
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  const bool whole = error == std::errc() && end == key.data() + key.size();
  return whole && layer >= 0 && layer < kMostLayers ? layer : -1;
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

std::vector<CacheScales> cache_scales_in(const std::string& folder) {
  std::vector<CacheScales> scales;
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) return scales;
  const std::unique_ptr<TensorSource> stored = open_tensors(folder);
  const auto take = [&](const std::string& key, std::int64_t layer, float CacheScales::*which) {
    if (layer < 0) return;
    if (std::ssize(scales) <= layer) scales.resize(static_cast<std::size_t>(layer) + 1);
    scales[static_cast<std::size_t>(layer)].*which = number_of(*stored, key);
  };
  for (const auto& [key, tensor] : stored->tensors()) {
    take(key, layer_of(key, ".k_scale", ".k_proj"), &CacheScales::keys);
    take(key, layer_of(key, ".v_scale", ".v_proj"), &CacheScales::values);
  }
  return scales;
}

}  // namespace mt
