#include "formats/gguf/gguf_mixture.h"

#include <algorithm>
#include <charconv>

#include "formats/names/gguf.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

using enum GgufType;

constexpr GgufMixture kMixtures[] = {
    {"q8_0", q8_0, 7},    {"q4_0", q4_0, 2},    {"q4_1", q4_1, 3},    {"q5_0", q5_0, 8},
    {"q5_1", q5_1, 9},    {"q2_k", q2_k, 10},   {"q3_k_s", q3_k, 11}, {"q3_k_m", q3_k, 12},
    {"q3_k_l", q3_k, 13}, {"q4_k_s", q4_k, 14}, {"q4_k_m", q4_k, 15}, {"q5_k_s", q5_k, 16},
    {"q5_k_m", q5_k, 17}, {"q6_k", q6_k, 18},   {"mxfp4", mxfp4, 38},
};

// What the rules ask of a tensor and its model.
struct Asked {
  std::string_view mixture;
  GgufType base;
  std::int64_t value, values;  // which of the layers with values, and how many there are
  std::int64_t layer, layers;  // likewise of all, or of those with an MLP
  std::int64_t experts;
  std::int64_t queries;  // heads of them for each of keys and values
  bool is_70b;           // llama.cpp's name for a Llama of 80 layers whose heads share values
  bool is_falcon;

  bool is(std::string_view name) const { return mixture == name; }
  // The first and last eighth of the layers, and every third between.
  static bool in_more_bits(std::int64_t layer, std::int64_t layers) {
    const std::int64_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
  }
};

GgufType of_values_by_layer(const Asked& a) {
  if (a.is("q2_k")) return a.queries >= 4 ? q4_k : q3_k;
  if (a.is("q3_k_m")) return a.value < 2 ? q5_k : q4_k;
  if (a.is("q3_k_l")) return q5_k;
  if (a.is("q4_k_s") && a.value < 4) return q5_k;
  if ((a.is("q4_k_m") || a.is("q5_k_m")) && Asked::in_more_bits(a.value, a.values)) return q6_k;
  return a.base;
}

// Gives the type of values, also of a matrix that holds queries and keys beside them.
GgufType of_values(const Asked& a) {
  if (a.experts == 8) return q8_0;
  const GgufType type = of_values_by_layer(a);
  return a.is_70b && (type == q3_k || type == q4_k) ? q5_k : type;
}

GgufType of_down_of_falcon(const Asked& a) {
  const bool more = Asked::in_more_bits(a.layer, a.layers);
  if (a.is("q3_k_m") || a.is("q4_k_m")) {
    const bool third = a.is("q3_k_m");
    if (a.layer < a.layers / 16) return third ? q5_k : q6_k;
    return more ? third ? q4_k : q5_k : a.base;
  }
  if (a.is("q2_k")) return q3_k;
  if (a.is("q3_k_l")) return q4_k;
  return a.is("q5_k_m") && more ? q6_k : a.base;
}

GgufType of_down(const Asked& a) {
  if (a.is_falcon) return of_down_of_falcon(a);
  if (a.is("q2_k")) return q3_k;
  if (a.is("q3_k_m")) return a.layer < a.layers / 16 ? q5_k : q4_k;
  if (a.is("q3_k_l")) return q5_k;
  if (a.is("q4_k_s") && a.layer < a.layers / 8) return q5_k;
  if ((a.is("q4_k_m") || a.is("q5_k_m")) && Asked::in_more_bits(a.layer, a.layers)) return q6_k;
  return a.base;
}

GgufType of_output_of_attention(const Asked& a) {
  if (a.is_falcon) return a.is("q3_k_l") ? q4_k : a.base;
  if (a.experts == 8 && (a.is("q2_k") || a.is("q3_k_s") || a.is("q3_k_m") || a.base == q4_k))
    return q5_k;
  if (a.experts == 8) return a.base;
  if (a.is("q2_k")) return q3_k;
  if (a.is("q3_k_m")) return q4_k;
  if (a.is("q3_k_l")) return q5_k;
  return a.base;
}

GgufType narrower_blocks(GgufType type) {
  switch (type) {
    case q2_k:
    case q3_k:
      return q4_0;
    case q4_k:
      return q5_0;
    case q5_k:
      return q5_1;
    default:
      return q8_0;
  }
}

// Reads the 12 of "blk.12.attn_v.weight".
std::int64_t layer_of(std::string_view tensor) {
  constexpr std::string_view kBefore = "blk.";
  std::int64_t layer = 0;
  if (tensor.starts_with(kBefore))
    std::from_chars(tensor.data() + kBefore.size(), tensor.data() + tensor.size(), layer);
  return layer;
}

// Which of the layers that have a tensor of a kind a layer of the file is, and how many llama.cpp
// counts: of values those that are there, of MLPs all.
struct OfKind {
  std::int64_t at = 0, of = 0;
};
OfKind of_kind(const ModelConfig& c, std::int64_t layer, char letter) {
  if (c.family != ModelFamily::mamba || c.hybrid_pattern.empty()) return {layer, c.num_layers};
  const std::int64_t step = c.swiglu && c.is_hybrid() ? 2 : 1, layers = c.num_layers / step;
  if (letter == '-' && (step == 2 || c.has_layer('E'))) return {layer, layers};
  const auto before = static_cast<std::size_t>(layer * step);
  const std::string_view pattern = c.hybrid_pattern;
  return {std::ranges::count(pattern.substr(0, before), letter),
          letter == '-' ? layers : std::ranges::count(pattern, letter)};
}

}  // namespace

const GgufMixture* gguf_mixture(std::string_view name) {
  const auto* const found = std::ranges::find(kMixtures, name, &GgufMixture::name);
  return found == std::end(kMixtures) ? nullptr : found;
}

std::vector<std::string> gguf_mixtures() {
  std::vector<std::string> names;
  for (const GgufMixture& mixture : kMixtures) names.emplace_back(mixture.name);
  return names;
}

GgufType gguf_type(const GgufMixture& mixture, const ModelConfig& config,
                   std::string_view architecture, std::string_view tensor, std::int64_t columns) {
  constexpr std::int64_t kLayersOf70b = 80;
  const std::int64_t queries = config.num_attention_heads / config.kv_heads(),
                     layer = layer_of(tensor);
  const OfKind values = of_kind(config, layer, '*'), downs = of_kind(config, layer, '-');
  const Asked asked{
      .mixture = mixture.name,
      .base = mixture.base,
      .value = values.at,
      .values = values.of,
      .layer = downs.at,
      .layers = downs.of,
      .experts = config.num_experts,
      .queries = queries,
      .is_70b = config.num_layers == kLayersOf70b && (queries > 1 || config.add_qkv_bias),
      .is_falcon = architecture == "falcon"};
  const auto is = [&](std::string_view part) {
    return tensor.find(part) != std::string_view::npos;
  };
  const bool output =
      tensor == kGgufOutput || (tensor == kGgufWords && !has_gguf_output(architecture, config));
  GgufType type = mixture.base;
  if (mixture.base == mxfp4)
    type = !output && (is("_exps.") || is("attn_k_b.") || is("attn_v_b.")) ? mxfp4 : q8_0;
  else if (output)
    type = type == q8_0 || asked.is_falcon ? q8_0 : q6_k;
  else if (is("attn_v.weight") || is("attn_qkv.weight"))
    type = of_values(asked);
  else if (is("attn_k.weight") && asked.experts == 8)
    type = q8_0;
  else if (is("ffn_down"))
    type = of_down(asked);
  else if (is("attn_output.weight"))
    type = of_output_of_attention(asked);
  return columns % gguf_blocks(type)->elements == 0 ? type : narrower_blocks(type);
}

}  // namespace mt
