// The rows of a layer's MLP: linear_fc1, with the norm in front of it, and linear_fc2; and those of
// experts, of which each has as many.
#include "model/layers/layer_rows.h"

namespace mt {

static std::optional<Branch> make_mlp(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, f = c.ffn(), fc1_rows = c.is_gated() ? 2 * f : f;
  std::vector<Segment> fc1_segments;
  if (c.is_gated()) fc1_segments.push_back({"gate", f, 0, ShardAxis::tp});
  fc1_segments.push_back({"up", f, 0, ShardAxis::tp});
  const Norm norm = layer.make_branch_norm("mlp.linear_fc1", "layer_norm_weight");
  const Linear fc1 = layer.make_linear(layer.row("mlp.linear_fc1", "weight", {fc1_rows, h},
                                                 matrix_init(c, {fc1_rows, h}), fc1_segments),
                                       c.add_bias_linear, Purpose::fc1_adapter_dropout);
  const Linear fc2 =
      layer.make_linear(layer.row("mlp.linear_fc2", "weight", {h, f}, layer.output_init(),
                                  {{"up", f, 1, ShardAxis::tp}}),
                        c.add_bias_linear, Purpose::fc2_adapter_dropout);
  return Branch(
      norm, Mlp(fc1, fc2, c.activation(), layer.layer, c.hidden_dropout, c.recompute.part("mlp")),
      c.recompute.part("layernorm"));
}

extern const BranchKind kMlp{
    .letter = '-', .make = make_mlp, .extra_states = [](const ModelConfig&) {
      return std::vector<ExtraState>{{"mlp.linear_fc1"}, {"mlp.linear_fc2"}};
    }};

// --- Experts ------------------------------------------------------------------------------------

// A Mixtral's router and experts take the place of an MLP.
static std::optional<Branch> declare_experts(const LayerRows& layer) {
  const std::int64_t h = layer.config.hidden_size, f = layer.config.ffn(),
                     experts = layer.config.num_experts;
  const Initializer init{Initializer::Kind::normal, layer.config.init_method_std};
  layer.make_branch_norm("pre_mlp_layernorm", "weight");
  layer.table.add(layer.row("mlp.router", "weight", {experts, h}, init));
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const auto add = [&](const char* module, const Shape& shape, std::vector<Segment> segments) {
      Param row = layer.row(module, "weight", shape, init, std::move(segments));
      row.place.expert = expert;
      row.experts = experts;
      row.copies = Copies::experts;
      layer.table.add(std::move(row));
    };
    add("linear_fc1", {2 * f, h}, {{"gate", f, 0, ShardAxis::tp}, {"up", f, 0, ShardAxis::tp}});
    add("linear_fc2", {h, f}, {{"up", f, 1, ShardAxis::tp}});
  }
  return {};
}

extern const BranchKind kExperts{
    .letter = 'E', .make = declare_experts, .extra_states = [](const ModelConfig&) {
      using enum ExtraState::Turn;
      return std::vector<ExtraState>{{"pre_mlp_layernorm"},
                                     {"linear_fc1", behind_layers, true},
                                     {"linear_fc2", behind_layers, true}};
    }};

}  // namespace mt
