#include "formats/names/meta.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/error.h"
#include "formats/hugging_face/hugging_face_source.h"

namespace mt {
namespace {

struct Name {
  std::string_view meta, hugging_face;
  MetaShare share;
};
constexpr Name kNames[] = {{kMetaWords, "embed_tokens.weight", MetaShare::columns},
                           {"norm.weight", "norm.weight", MetaShare::all},
                           {kMetaOutput, "lm_head.weight", MetaShare::rows},
                           {"attention.wq.weight", "self_attn.q_proj.weight", MetaShare::rows},
                           {"attention.wk.weight", "self_attn.k_proj.weight", MetaShare::rows},
                           {"attention.wv.weight", "self_attn.v_proj.weight", MetaShare::rows},
                           {"attention.wo.weight", "self_attn.o_proj.weight", MetaShare::columns},
                           {"feed_forward.w1.weight", "mlp.gate_proj.weight", MetaShare::rows},
                           {"feed_forward.w2.weight", "mlp.down_proj.weight", MetaShare::columns},
                           {"feed_forward.w3.weight", "mlp.up_proj.weight", MetaShare::rows},
                           {"attention_norm.weight", "input_layernorm.weight", MetaShare::all},
                           {"ffn_norm.weight", "post_attention_layernorm.weight", MetaShare::all}};
constexpr std::string_view kLayers = "layers.";

// "layers.3." or nothing, and what follows.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const std::size_t end = name.starts_with(kLayers) ? name.find('.', kLayers.size()) + 1 : 0;
  return {name.substr(0, end), name.substr(end)};
}

// Only the first three stand outside of layers.
const Name* find(std::string_view Name::*library, std::string_view name) {
  const auto [layer, rest] = split(name);
  const auto* const known = std::ranges::find(kNames, rest, library);
  const bool outer = known - kNames < 3;
  return known == std::end(kNames) || outer != layer.empty() ? nullptr : known;
}

}  // namespace

void turn_neighbours(Transform& transform, const Shape& row, std::int64_t head_dim) {
  // [heads, 2, d / 2] over [2, heads, d / 2] becomes [heads, d / 2, 2].
  const std::int64_t heads = transformed_shape(transform, row)[0] / head_dim;
  transform.push_back(exchange(heads, 2));
  transform.push_back(exchange(2, heads * head_dim / 2));
}

std::vector<ForeignName> meta_tensors(const ModelConfig& c, const Param& row) {
  std::vector<ForeignName> tensors;
  for (const ForeignName& name : hugging_face_names(row)) {
    std::string_view theirs = name.name;
    if (theirs.starts_with("model.")) theirs.remove_prefix(6);
    const Name* const known = find(&Name::hugging_face, theirs);
    if (known == nullptr) fail(Exit::bad_config, name.name, ": has no place in a Llama of Meta's");
    Transform transform = name.transform;
    if (known->meta.ends_with(".wq.weight") || known->meta.ends_with(".wk.weight"))
      turn_neighbours(transform, row.shape, c.head_dim());
    tensors.push_back({kMetaFormat, concat(split(theirs).first, known->meta), transform});
  }
  return tensors;
}

std::optional<MetaShare> meta_share(std::string_view name) {
  const Name* const known = find(&Name::meta, name);
  return known == nullptr ? std::nullopt : std::optional(known->share);
}

std::string meta_file_name(std::int64_t rank) {
  char name[40];
  std::snprintf(name, sizeof name, "consolidated.%02d.pth", static_cast<int>(rank));
  return name;
}

}  // namespace mt
