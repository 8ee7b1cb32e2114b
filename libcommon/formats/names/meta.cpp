#include "formats/names/meta.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "formats/names/hugging_face.h"
#include "model/config/model_config.h"
#include "model/keys.h"

namespace mt {
namespace {

using enum PartOfRow;

constexpr ModuleName kNames[] = {{"embedding.word_embeddings", "tok_embeddings"},
                                 {"decoder.final_layernorm", "norm"},
                                 {"output_layer", "output"},
                                 {"self_attention.linear_qkv", "attention.wq", queries},
                                 {"self_attention.linear_qkv", "attention.wk", keys},
                                 {"self_attention.linear_qkv", "attention.wv", values},
                                 {"self_attention.linear_proj", "attention.wo"},
                                 {"mlp.linear_fc1", "feed_forward.w1", gate},
                                 {"mlp.linear_fc1", "feed_forward.w3", up},
                                 {"mlp.linear_fc2", "feed_forward.w2"},
                                 {"input_layernorm", "attention_norm"},
                                 {"pre_mlp_layernorm", "ffn_norm"}};

struct Share {
  std::string_view name;
  MetaShare share;
};
constexpr Share kOuter[] = {{kMetaWords, MetaShare::columns},
                            {"norm.weight", MetaShare::all},
                            {kMetaOutput, MetaShare::rows}};
constexpr Share kOfLayer[] = {
    {"attention.wq.weight", MetaShare::rows},    {"attention.wk.weight", MetaShare::rows},
    {"attention.wv.weight", MetaShare::rows},    {"attention.wo.weight", MetaShare::columns},
    {"feed_forward.w1.weight", MetaShare::rows}, {"feed_forward.w2.weight", MetaShare::columns},
    {"feed_forward.w3.weight", MetaShare::rows}, {"attention_norm.weight", MetaShare::all},
    {"ffn_norm.weight", MetaShare::all}};

bool is_like_llama(const ModelConfig& c) {
  return (c.family == ModelFamily::gpt || c.family == ModelFamily::mixtral) &&
         c.position_embedding_type != "learned_absolute" && c.later_setting() == nullptr &&
         !c.multi_latent_attention && c.mtp_num_layers == 0;
}

}  // namespace

double meta_scaling_factor(const ModelConfig& config) {
  constexpr std::int64_t kNarrowestOf31 = 4096;
  return config.hidden_size < kNarrowestOf31 ? 32 : 8;
}

void turn_neighbours(Transform& transform, const Shape& row, std::int64_t head_dim) {
  // [heads, 2, d / 2] over [2, heads, d / 2] becomes [heads, d / 2, 2].
  const std::int64_t heads = transformed_shape(transform, row)[0] / head_dim;
  transform.push_back(exchange(heads, 2));
  transform.push_back(exchange(2, heads * head_dim / 2));
}

std::vector<ForeignName> meta_tensors(const ModelConfig& c, const Param& row) {
  const std::string layer = row.place.layer ? concat("layers.", *row.place.layer, ".") : "";
  std::vector<ForeignName> names = names_in(kNames, c, row, layer);
  const bool is_weight = local_spec_place(row.place).param == "weight";
  if (!is_like_llama(c) || names.empty() || !is_weight)
    fail(Exit::bad_config, hugging_face_names(c, row).front().name,
         ": has no place in a Llama of Meta's");
  if (names.size() == 3)  // queries, keys and values
    for (const std::size_t i : {0, 1}) turn_neighbours(names[i].transform, row.shape, c.head_dim());
  return names;
}

std::optional<MetaShare> meta_share(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  std::span<const Share> shares = kOuter;
  if (name.starts_with(kLayers)) {  // "layers.3."
    name.remove_prefix(name.find('.', kLayers.size()) + 1);
    shares = kOfLayer;
  }
  const auto known = std::ranges::find(shares, name, &Share::name);
  return known == shares.end() ? std::nullopt : std::optional(known->share);
}

std::string meta_file_name(std::int64_t rank) {
  char name[40];
  std::snprintf(name, sizeof name, "consolidated.%02d.pth", static_cast<int>(rank));
  return name;
}

}  // namespace mt
