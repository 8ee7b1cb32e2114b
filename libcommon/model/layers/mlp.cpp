// The rows of a layer's MLP: linear_fc1, with the norm in front of it, and linear_fc2.
#include "model/layers/layer_rows.h"

namespace mt {

static std::vector<ForeignName> fc1_names(const HfNames& names, const ModelConfig& c) {
  if (!c.swiglu) return {names.matrix("mlp.c_fc.weight", "mlp.up_proj.weight")};
  const std::int64_t f = c.ffn();
  return {names.matrix("", "mlp.gate_proj.weight", {pick_rows(2 * f, 0, f)}),
          names.matrix("", "mlp.up_proj.weight", {pick_rows(2 * f, f, f)})};
}

Branch make_mlp(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const HfNames hf = layer.hf();
  const std::int64_t h = c.hidden_size, f = c.ffn(), fc1_rows = c.swiglu ? 2 * f : f;
  std::vector<Segment> fc1_segments;
  if (c.swiglu) fc1_segments.push_back({"gate", f, 0, ShardAxis::tp});
  fc1_segments.push_back({"up", f, 0, ShardAxis::tp});
  const Norm norm = layer.norm("mlp.linear_fc1.layer_norm_weight",
                               {hf.vector("ln_2.weight", "post_attention_layernorm.weight")});
  const Linear fc1(layer.table,
                   layer.row("mlp.linear_fc1.weight", {fc1_rows, h}, matrix_init(c, {fc1_rows, h}),
                             fc1_segments, fc1_names(hf, c)),
                   c.add_bias_linear);
  const Linear fc2(
      layer.table,
      layer.row("mlp.linear_fc2.weight", {h, f}, layer.output_init(), {{"up", f, 1, ShardAxis::tp}},
                {hf.matrix("mlp.c_proj.weight", "mlp.down_proj.weight")}),
      c.add_bias_linear);
  return {norm,
          Mlp(fc1, fc2, c.activation(), layer.layer, c.hidden_dropout, c.recompute.part("mlp")),
          c.recompute.part("layernorm")};
}

}  // namespace mt
