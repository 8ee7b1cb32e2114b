#include "model/layers/layer_rows.h"

#include <cmath>

namespace mt {

// Glorot, Bengio (2010), eq. 16: the variance is 2 / (rows + columns).
Initializer matrix_init(const ModelConfig& c, const Shape& shape) {
  if (!c.init_method_xavier_uniform) return {Initializer::Kind::normal, c.init_method_std};
  return {Initializer::Kind::uniform, std::sqrt(2 / static_cast<double>(shape[0] + shape[1]))};
}

bool is_gpt2(const ModelConfig& c) { return c.position_embedding_type == "learned_absolute"; }

ForeignName HfNames::matrix(const char* in_gpt2, const char* in_llama, Transform transform) const {
  if (gpt2) transform.push_back(transpose());
  return {"hf", layer + (gpt2 ? in_gpt2 : in_llama), std::move(transform)};
}

ForeignName HfNames::vector(const char* in_gpt2, const char* in_llama) const {
  return {"hf", layer + (gpt2 ? in_gpt2 : in_llama), {}};
}

Param LayerRows::row(const std::string& name, Shape shape, Initializer init,
                     std::vector<Segment> segments, std::vector<ForeignName> foreign) const {
  return Param{.name = concat("decoder.layers.", layer, ".", name),
               .shape = shape,
               .init = init,
               .segments = std::move(segments),
               .foreign = std::move(foreign),
               .key = "decoder.layers." + name,
               .layer = layer,
               .layers = config.num_layers};
}

Norm LayerRows::norm(const char* name, std::vector<ForeignName> foreign) const {
  Param scale = row(name, {config.hidden_size}, {}, {}, std::move(foreign));
  scale.sum_gradient_over_tp = part.sequence_parallel;
  return {table, std::move(scale), config.norm_kind(), config.norm_epsilon,
          config.apply_layernorm_1p};
}

Initializer LayerRows::output_init() const {
  return {Initializer::Kind::normal,
          config.init_method_std / std::sqrt(2.0 * static_cast<double>(config.num_layers))};
}

HfNames LayerRows::hf() const {
  const bool gpt2 = is_gpt2(config);
  return {gpt2, concat(gpt2 ? "transformer.h." : "model.layers.", layer, ".")};
}

}  // namespace mt
