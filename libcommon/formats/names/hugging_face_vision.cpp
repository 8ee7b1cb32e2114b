#include "formats/names/hugging_face_vision.h"

#include "model/config/model_config.h"

namespace mt {
namespace {

using enum PartOfRow;
using Names = std::vector<ForeignName>;

constexpr ModuleName kVit[] = {
    {"decoder.final_layernorm", "layernorm"},
    {"input_layernorm", "layernorm_before"},
    {"self_attention.linear_qkv", "attention.attention.query", queries},
    {"self_attention.linear_qkv", "attention.attention.key", keys},
    {"self_attention.linear_qkv", "attention.attention.value", values},
    {"self_attention.linear_proj", "attention.output.dense"},
    {"pre_mlp_layernorm", "layernorm_after"},
    {"mlp.linear_fc1", "intermediate.dense", ungated},
    {"mlp.linear_fc2", "output.dense"},
};

// CLIP's and SigLIP's towers.
constexpr ModuleName kTower[] = {
    {"embedding.ln_pre", "pre_layrnorm"},
    {"decoder.final_layernorm", "post_layernorm"},
    {"input_layernorm", "layer_norm1"},
    {"self_attention.linear_qkv", "self_attn.q_proj", queries},
    {"self_attention.linear_qkv", "self_attn.k_proj", keys},
    {"self_attention.linear_qkv", "self_attn.v_proj", values},
    {"self_attention.linear_proj", "self_attn.out_proj"},
    {"pre_mlp_layernorm", "layer_norm2"},
    {"mlp.linear_fc1", "mlp.fc1", ungated},
    {"mlp.linear_fc2", "mlp.fc2"},
};

constexpr ModuleName kInternVit[] = {
    {"input_layernorm", "layernorm_before"},
    {"self_attention.linear_qkv", "attention.q_proj", queries},
    {"self_attention.linear_qkv", "attention.k_proj", keys},
    {"self_attention.linear_qkv", "attention.v_proj", values},
    {"self_attention.q_layernorm", "attention.q_norm"},
    {"self_attention.k_layernorm", "attention.k_norm"},
    {"self_attention.linear_proj", "attention.projection_layer"},
    {"pre_mlp_layernorm", "layernorm_after"},
    {"mlp.linear_fc1", "mlp.fc1", ungated},
    {"mlp.linear_fc2", "mlp.fc2"},
};

// As its makers have it, whose names transformers saves.
constexpr ModuleName kRadio[] = {
    {"input_layernorm", "norm1"},
    {"self_attention.linear_qkv", "attn.qkv", by_kind},
    {"self_attention.linear_proj", "attn.proj"},
    {"pre_mlp_layernorm", "norm2"},
    {"mlp.linear_fc1", "mlp.fc1", ungated},
    {"mlp.linear_fc1", "mlp.gate_proj", gate},
    {"mlp.linear_fc1", "mlp.up_proj", up},
};

std::string layer_of(const RowPlace& place, const char* layers) {
  return place.layer ? concat(layers, *place.layer, ".") : std::string();
}

// Patches are read as by a convolution, whose weights are [hidden, colours, rows, columns].
Transform patch_transform(const ModelConfig& c) {
  const std::int64_t h = c.hidden_size, p = c.patch_dim, colors = c.num_channels;
  return {transpose(), exchange(p * p, colors), transpose(), reshape({h, colors, p, p})};
}

Names tower_names(const ModelConfig& c, const Param& row) {
  const RowPlace& place = row.place;
  const std::int64_t h = c.hidden_size;
  if (place.module == "class_tokens") return {{"embeddings.class_embedding", {reshape({h})}}};
  if (place.module == "position_embeddings") return {{"embeddings.position_embedding.weight"}};
  if (place.module == "patch_embeddings" && place.param == "weight")
    return {{"embeddings.patch_embedding.weight", patch_transform(c)}};
  if (place.module == "patch_embeddings") return {{"embeddings.patch_embedding.bias"}};
  if (place.stack == "pooling_head") {
    if (place.module == "probe") return {{"head.probe", {reshape({1, 1, h})}}};
    const bool in = place.module == "attention.in_proj";  // whose parameters are attention's
    return {{concat("head.", place.module, in ? "_" : ".", place.param)}};
  }
  return names_in(kTower, c, row, layer_of(place, "encoder.layers."));
}

// A patch is a row of its red, green and blue pixels, one colour after another.
Names radio_names(const ModelConfig& c, const Param& row) {
  const RowPlace& place = row.place;
  const std::int64_t h = c.hidden_size;
  const std::string patches = "radio_model.model.patch_generator.";
  if (place.module == "class_tokens") return {{patches + "cls_token.token"}};
  if (place.module == "position_embeddings")
    return {{patches + "pos_embed", {reshape({1, row.shape[0], h})}}};
  if (place.module == "patch_embeddings") {
    Transform by_colors = patch_transform(c);
    by_colors.push_back(reshape({h, c.patch_width()}));
    return {{patches + "embedder.weight", by_colors}};
  }
  const std::string layer = layer_of(place, "radio_model.model.blocks.");
  if (place.module == "mlp.linear_fc2")
    return {{concat(layer, c.swiglu ? "mlp.down_proj." : "mlp.fc2.", place.param)}};
  return names_in(kRadio, c, row, layer);
}

}  // namespace

std::vector<ForeignName> vit_names(const ModelConfig& c, const Param& row) {
  const RowPlace& place = row.place;
  const std::string model = c.has_task_head() ? "vit." : "", embeddings = model + "embeddings.";
  const std::int64_t h = c.hidden_size;
  if (c.is_radio()) return radio_names(c, row);
  if (c.is_tower() && !c.is_internvit_tower()) return tower_names(c, row);
  if (place.stack == kImageClassifier) return {{concat(kImageClassifier, ".", place.param)}};
  if (place.module == "class_tokens")
    return {{embeddings + "cls_token", {reshape({1, row.shape[0], h})}}};
  if (place.module == "position_embeddings")
    return {{embeddings + "position_embeddings", {reshape({1, row.shape[0], h})}}};
  if (place.module == "patch_embeddings" && place.param == "weight")
    return {{embeddings + "patch_embeddings.projection.weight", patch_transform(c)}};
  if (place.module == "patch_embeddings")
    return {{embeddings + "patch_embeddings.projection.bias"}};
  const std::string layer =
      place.layer ? concat(model, "encoder.layer.", *place.layer, ".") : model;
  if (place.param == "ls1" || place.param == "ls2")
    return {{concat(layer, "lambda_", place.param == "ls1" ? 1 : 2)}};
  return c.is_internvit_tower() ? names_in(kInternVit, c, row, layer)
                                : names_in(kVit, c, row, layer);
}

}  // namespace mt
