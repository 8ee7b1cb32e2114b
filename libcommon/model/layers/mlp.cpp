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
static std::optional<Branch> make_experts(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, f = c.ffn(), count = c.num_experts;
  const Initializer init{Initializer::Kind::normal, c.init_method_std};
  const Norm norm = layer.make_branch_norm("pre_mlp_layernorm", "weight");
  const Param& router = layer.table.add(layer.row("mlp.router", "weight", {count, h}, init));
  std::vector<Experts::Expert> experts;
  for (std::int64_t expert = 0; expert < count; ++expert) {
    const auto add = [&](const char* module, const Shape& shape, const Initializer& of,
                         std::vector<Segment> segments) {
      Param row = layer.row(module, "weight", shape, of, std::move(segments));
      row.place.expert = expert;
      row.experts = count;
      row.copies = Copies::experts;
      return &layer.table.add(std::move(row));
    };
    const Param* const fc1 = add("linear_fc1", {2 * f, h}, init,
                                 {{"gate", f, 0, ShardAxis::tp}, {"up", f, 0, ShardAxis::tp}});
    experts.push_back(
        {fc1, add("linear_fc2", {h, f}, layer.output_init(), {{"up", f, 1, ShardAxis::tp}})});
  }
  return Branch(
      norm, Experts(router, std::move(experts), c.moe_router_topk, layer.layer, c.hidden_dropout),
      c.recompute.part("layernorm"));
}

extern const BranchKind kExperts{
    .letter = 'E', .make = make_experts, .extra_states = [](const ModelConfig&) {
      using enum ExtraState::Turn;
      return std::vector<ExtraState>{{"pre_mlp_layernorm"},
                                     {"linear_fc1", behind_layers, true},
                                     {"linear_fc2", behind_layers, true}};
    }};

}  // namespace mt
