#include "formats/names/hugging_face_delta.h"

#include "formats/hugging_face/delta_family.h"
#include "formats/names/hugging_face.h"
#include "model/config/model_config.h"

namespace mt {

// Of a Qwen3.5: ours is theirs, one behind the other.
static std::vector<ForeignName> parts_of_in(const ModelConfig& c, const std::string& layer) {
  const std::int64_t heads = c.linear_num_value_heads, values = heads * c.linear_value_head_dim,
                     mixed = 2 * c.linear_num_key_heads * c.linear_key_head_dim + values,
                     all = mixed + values + 2 * heads;
  std::vector<ForeignName> names;
  std::int64_t begin = 0;
  for (const auto& [part, rows] :
       {std::pair("qkv", mixed), {"z", values}, {"b", heads}, {"a", heads}}) {
    names.push_back({concat(layer, "in_proj_", part, ".weight"), {pick_rows(all, begin, rows)}});
    begin += rows;
  }
  return names;
}

// Theirs has for each key head its query, its key, and its value heads' values and gates, and then,
// in a tensor of its own, what beta and alpha are made by.
static std::vector<ForeignName> names_of_in(const ModelConfig& c, const std::string& layer) {
  const std::int64_t heads = c.linear_num_key_heads, group = c.linear_num_value_heads / heads,
                     key = c.linear_key_head_dim, value = group * c.linear_value_head_dim,
                     wide = heads * 2 * (key + value), all = wide + 2 * heads * group;
  return {
      {layer + "in_proj_qkvz.weight",
       {pick_rows(all, 0, wide), deal_rows({key, key, value, value})}},
      {layer + "in_proj_ba.weight", {pick_rows(all, wide, all - wide), deal_rows({group, group})}}};
}

std::vector<ForeignName> delta_names(const ModelConfig& c, const Param& row,
                                     const std::string& layer) {
  const RowPlace& place = row.place;
  const std::string at = layer + "linear_attn.";
  if (place.module == "self_attention") return {{concat(at, place.param)}};
  if (place.param != "weight") return {};
  if (place.module == "self_attention.in_proj")
    return hugging_face_type(c) == kQwen35 ? parts_of_in(c, at) : names_of_in(c, at);
  if (place.module == "self_attention.conv1d") return {{at + "conv1d.weight"}};
  if (place.module == "self_attention.out_proj") return {{at + "out_proj.weight"}};
  if (place.module != "self_attention.out_norm") return {};
  // Theirs is not centred at zero, unlike their other norms.
  ForeignName name{at + "norm.weight"};
  if (c.apply_layernorm_1p) name.transform.push_back(shift(1));
  return {name};
}

}  // namespace mt
