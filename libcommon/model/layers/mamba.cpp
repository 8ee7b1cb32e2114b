// The rows of a Mamba-2's mixer.  Dao, Gu (2024), arXiv:2405.21060: z gates, x is what is mixed, B
// and C map to states and back, dt is each head's step.
#include "model/layers/layer_rows.h"

namespace mt {

// It is all of its layer.
static std::optional<Branch> declare_mamba(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, inner = c.mamba_inner(), states = c.mamba_states(),
                     heads = c.mamba_num_heads;
  const auto cut = [](const char* name, std::int64_t extent, int dimension = 0) {
    return Segment{name, extent, dimension, ShardAxis::tp};
  };
  const auto add = [&](const char* module, const char* param, const Shape& shape,
                       std::vector<Segment> segments) {
    Param row = layer.row(module, param, shape, {Initializer::Kind::normal, c.init_method_std},
                          std::move(segments));
    row.key_by_segments = row.segments.size() > 1;
    layer.table.add(std::move(row));
  };
  const std::vector<Segment> mixed = {cut("x", inner), cut("B", states), cut("C", states)};
  add("mixer.in_proj", "layer_norm_weight", {h}, {});
  if (c.norm_kind() == NormKind::layer) add("mixer.in_proj", "layer_norm_bias", {h}, {});
  add("mixer.in_proj", "weight", {2 * inner + 2 * states + heads, h},
      {cut("z", inner), cut("x", inner), cut("B", states), cut("C", states), cut("dt", heads)});
  add("mixer.conv1d", "weight", {inner + 2 * states, 1, kMambaConv}, mixed);
  add("mixer.conv1d", "bias", {inner + 2 * states}, mixed);
  for (const char* param : {"dt_bias", "A_log", "D"})
    add("mixer", param, {heads}, {cut("heads", heads)});
  add("mixer.norm", "weight", {inner}, {cut("x", inner)});
  add("mixer.out_proj", "weight", {h, inner}, {cut("x", inner, 1)});
  return {};
}

extern const BranchKind kMamba{
    .letter = 'M', .make = declare_mamba, .extra_states = [](const ModelConfig&) {
      return std::vector<ExtraState>{{"mixer.in_proj"}, {"mixer.out_proj"}};
    }};

void declare_mamba_final_norm(const ModelRows& rows) {
  const auto add = [&](const char* param) {
    rows.table.add({.place = {.stack = "decoder", .module = "final_norm", .param = param},
                    .shape = {rows.config.hidden_size}});
  };
  add("weight");
  if (rows.config.norm_kind() == NormKind::layer) add("bias");
}

}  // namespace mt
