#include "model/layers/layer_rows.h"

#include <cmath>

#include "model/keys.h"

namespace mt {

// Glorot, Bengio (2010), eq. 16: the variance is 2 / (rows + columns).
Initializer matrix_init(const ModelConfig& c, const Shape& shape) {
  if (!c.init_method_xavier_uniform) return {Initializer::Kind::normal, c.init_method_std};
  return {Initializer::Kind::uniform, std::sqrt(2 / static_cast<double>(shape[0] + shape[1]))};
}

Param ModelRows::norm_row(RowPlace place) const {
  return {.place = std::move(place),
          .shape = {config.hidden_size},
          .summed_over = part.sequence_parallel ? SummedOver::tp : SummedOver::none};
}

Norm ModelRows::make_norm(Param scale, double epsilon) const {
  return {table,
          std::move(scale),
          {.kind = config.norm_kind(),
           .eps = epsilon != 0 ? epsilon : config.norm_epsilon,
           .zero_centered = config.apply_layernorm_1p,
           .has_weight = config.norm_weight,
           .has_bias = config.norm_bias}};
}

RowPlace LayerRows::place(std::string module, std::string_view param) const {
  if (!inside) return {.stack = stack, .layer = layer, .module = std::move(module), .param = param};
  return {.stack = stack,
          .layer = inside->layer,
          .inner = inside->inner,
          .inner_layer = inside->inner_layer,
          .module = inside->module + module,
          .param = param};
}

Param LayerRows::row(std::string module, std::string_view param, Shape shape, Initializer init,
                     std::vector<Segment> segments) const {
  return {.place = place(std::move(module), param),
          .shape = shape,
          .init = init,
          .segments = std::move(segments),
          .layers = stacked ? layers : 0};
}

Norm LayerRows::make_branch_norm(std::string module, std::string_view param) const {
  Param scale = norm_row(place(std::move(module), param));
  scale.layers = stacked ? layers : 0;
  return make_norm(std::move(scale));
}

std::optional<Norm> LayerRows::make_pre_norm(std::string module, std::string_view param) const {
  if (!config.pre_layernorm) return {};
  if (!config.is_internvit_tower()) return make_branch_norm(std::move(module), param);
  // Megatron's examples/multimodal/nvlm/internvit.py fuses none.
  const RowPlace own = local_spec_place({.module = std::move(module), .param = param});
  return make_branch_norm(own.module, own.param);
}

Branch::Behind LayerRows::make_behind(const std::string& module, Purpose dropout) const {
  Branch::Behind behind{.multiplier = config.residual_mult,
                        .purpose = dropout,
                        .layer = layer,
                        .to_normed = config.residual_of_norm};
  if (config.is_dino() && layers > 1)
    behind.drop_path =
        config.dino_drop_path * static_cast<double>(layer) / static_cast<double>(layers - 1);
  if (config.is_internvit_tower()) {
    Param lambda = norm_row(place("", dropout == Purpose::hidden_dropout1 ? "ls1" : "ls2"));
    lambda.init = {Initializer::Kind::constant, 0.1};
    lambda.layers = stacked ? layers : 0;
    behind.lambda = &table.add(std::move(lambda));
  }
  if (!config.post_layernorm) return behind;
  behind.norm = make_branch_norm(module + ".post_layernorm", "weight");
  behind.dropout = config.hidden_dropout;
  return behind;
}

double adapter_multiple(const ModelConfig& c, std::string_view module, std::string_view part) {
  const bool queries = (module == "self_attention.linear_qkv" && part == "q") ||
                       module == "cross_attention.linear_q";
  return c.family == ModelFamily::t5 && queries ? std::sqrt(static_cast<double>(c.head_dim())) : 1;
}

Linear LayerRows::make_linear(Param weight, bool has_bias, Purpose adapter_dropout) const {
  Adapter::Options adapter{.rank = config.lora_rank,
                           .scale = config.lora_scale(),
                           .dropout = config.lora_dropout,
                           .magnitudes = config.use_dora,
                           .parts = config.adapted_parts(weight.place.module),
                           .layer = layer,
                           .purpose = adapter_dropout};
  for (const std::string& name : adapter.parts)
    adapter.multiples.push_back(adapter_multiple(config, weight.place.module, name));
  return {table, std::move(weight), has_bias, adapter};
}

Initializer LayerRows::output_init() const {
  const double branches = config.family == ModelFamily::mamba ? 1 : 2;  // of a layer
  return {Initializer::Kind::normal,
          config.init_method_std / std::sqrt(branches * static_cast<double>(layers))};
}

}  // namespace mt
