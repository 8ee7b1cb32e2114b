#include "formats/names/megatron_legacy.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/families/tower.h"
#include "model/keys.h"

namespace mt {
namespace {

struct Name {
  std::string_view ours, theirs;
};
// Outside of layers: a module of ours, and what stands in front of its parameters' names.
constexpr Name kOuter[] = {
    {"embedding.word_embeddings", "language_model/embedding/word_embeddings/"},
    {"embedding.position_embeddings", "language_model/embedding/position_embeddings/"},
    {"embedding.tokentype_embeddings", "language_model/embedding/tokentype_embeddings/"},
    {"encoder.final_layernorm", "language_model/encoder/final_norm."},
    {"decoder.final_layernorm", "language_model/encoder/final_norm."},
    {"pooler.dense", "language_model/pooler/dense."},
    {"output_layer", "language_model/output_layer/"},
    {"lm_head.dense", "lm_head/dense."},
    {"lm_head.layer_norm", "lm_head/norm."},
    {"binary_head", "binary_head/"},
    {"classification_head", "classification_head/"},
    {"multichoice_head", "multichoice_head/"},
};
constexpr Name kOfLayer[] = {
    {"input_layernorm", "input_norm"},
    {"pre_mlp_layernorm", "post_attention_norm"},
    {"self_attention.linear_qkv", "self_attention.query_key_value"},
    {"self_attention.linear_proj", "self_attention.dense"},
    {"mlp.linear_fc1", "mlp.dense_h_to_4h"},
    {"mlp.linear_fc2", "mlp.dense_4h_to_h"},
};

std::string_view theirs(std::span<const Name> names, std::string_view ours) {
  const auto known = std::ranges::find(names, ours, &Name::ours);
  if (known == names.end()) fail(Exit::internal, ours, ": is no module of the legacy classes");
  return known->theirs;
}

constexpr std::string_view kLanguageModel = "language_model";

// What the name of a tower's row begins with; empty for others.
std::string_view tower_of(std::string_view name) {
  for (const std::string_view tower : {"query_model.", "context_model.", "shared_model."})
    if (name.starts_with(tower)) return tower;
  return {};
}

}  // namespace

std::string megatron_legacy_name(const ModelConfig& config, const RowPlace& own) {
  const RowPlace place = local_spec_place(own);
  if (const std::string_view tower = tower_of(place.stack); !tower.empty()) {
    const std::string front = concat(tower.substr(0, tower.size() - 1), "/");
    if (const auto of_bert = bert_place(place))
      return front + megatron_legacy_name(config, *of_bert);
    return concat(front, "projection_enc/", place.param);
  }
  if (place.layer)
    return concat(kLanguageModel, "/encoder/layers.", *place.layer, ".",
                  theirs(kOfLayer, place.module), ".", place.param);
  if (place.stack == "output_layer" && place.param == "bias") return "lm_head/bias";
  if (place.stack == "output_layer" && !config.untie_embeddings_and_output_weights)
    return concat("word_embeddings_for_head/", place.param);
  const std::string module = RowPlace{.stack = place.stack, .module = place.module}.name();
  return concat(theirs(kOuter, module), place.param);
}

static std::string without_language_model(std::string name) {
  const std::size_t begin = tower_of(name).size();
  if (std::string_view(name).substr(begin).starts_with(kLanguageModel))
    name.erase(begin, kLanguageModel.size() + 1);
  return name;
}

std::string plain_legacy_name(const ModelConfig& config, const RowPlace& place) {
  std::string name = megatron_legacy_name(config, place);
  std::ranges::replace(name, '/', '.');
  return without_language_model(std::move(name));
}

std::string plain_legacy_name(std::string path) {
  struct Older {
    std::string_view from, to;
  };
  static constexpr Older kBeginnings[] = {
      {"transformer.", "encoder."},
      {"word_embeddings.", "embedding.word_embeddings."},
      {"position_embeddings.", "embedding.position_embeddings."},
      {"tokentype_embeddings.", "embedding.tokentype_embeddings."},
      {"encoder.final_layernorm.", "encoder.final_norm."},
      {"lm_head.layernorm.", "lm_head.norm."},
  };
  static constexpr Older kInside[] = {
      {".attention.", ".self_attention."},
      {".input_layernorm.", ".input_norm."},
      {".post_attention_layernorm.", ".post_attention_norm."},
  };
  std::string name = without_language_model(std::move(path));
  const std::size_t begin = tower_of(name).size();
  for (const auto& [from, to] : kBeginnings)
    if (std::string_view(name).substr(begin).starts_with(from))
      name.replace(begin, from.size(), to);
  for (const auto& [from, to] : kInside)
    if (const std::size_t at = name.find(from); at != std::string::npos)
      name.replace(at, from.size(), to);
  return name;
}

}  // namespace mt
