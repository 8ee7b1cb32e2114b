// The rows of a layer's MLP: linear_fc1, with the norm in front of it, and linear_fc2; and those of
// experts, of which each has as many.
#include <cmath>

#include "model/layers/layer_rows.h"
#include "nn/kv_cache.h"

namespace mt {

// The first matrix has rows of gates and of what these open, or the latter alone.
static std::vector<Segment> rows_of_fc1(const ModelConfig& c, std::int64_t f, ShardAxis axis) {
  if (!c.is_gated()) return {{"up", f, 0, axis}};
  return {{"gate", f, 0, axis}, {"up", f, 0, axis}};
}

// What an activation has of its own: two slopes, which all ranks add to, and two numbers that stay.
static std::optional<Mlp::Slopes> make_slopes(const LayerRows& layer) {
  if (!layer.config.xielu) return {};
  const auto add = [&](const char* param, double value, bool learned) {
    Param row = layer.row("mlp.activation", param, {1}, {Initializer::Kind::constant, value});
    row.trainable = learned;
    if (learned && layer.part.ranks > 1) row.summed_over = SummedOver::tp;
    return &layer.table.add(std::move(row));
  };
  constexpr double kBeta = 0.5, kSlope = 0.8;  // and so slopes begin, behind softplus
  return Mlp::Slopes{.alpha_p = add("alpha_p", std::log(std::expm1(kSlope)), true),
                     .alpha_n = add("alpha_n", std::log(std::expm1(kSlope - kBeta)), true),
                     .beta = add("beta", kBeta, false),
                     .eps = add("eps", -1e-6, false)};
}

Mlp make_mlp_module(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, f = c.ffn(), fc1_rows = c.is_gated() ? 2 * f : f;
  const Linear fc1 =
      layer.make_linear(layer.row("mlp.linear_fc1", "weight", {fc1_rows, h},
                                  matrix_init(c, {fc1_rows, h}), rows_of_fc1(c, f, ShardAxis::tp)),
                        c.add_bias_linear, Purpose::fc1_adapter_dropout);
  const Linear fc2 =
      layer.make_linear(layer.row("mlp.linear_fc2", "weight", {h, f}, layer.output_init(),
                                  {{"up", f, 1, ShardAxis::tp}}),
                        c.add_bias_linear, Purpose::fc2_adapter_dropout);
  return {fc1,
          fc2,
          c.activation(),
          layer.layer,
          c.post_layernorm ? 0 : c.hidden_dropout,
          c.recompute.part("mlp"),
          make_slopes(layer)};
}

static Branch make_mlp(const LayerRows& layer) {
  const std::optional<Norm> norm = layer.make_pre_norm("mlp.linear_fc1", "layer_norm_weight");
  const Mlp mlp = make_mlp_module(layer);
  return Branch(norm, mlp, layer.config.recompute.part("layernorm"),
                layer.make_behind("mlp.linear_fc2", Purpose::hidden_dropout2));
}

extern const BranchKind kMlp{
    .letter = '-', .make = make_mlp, .extra_states = [](const ModelConfig&) {
      return std::vector<ExtraState>{{"mlp.linear_fc1"}, {"mlp.linear_fc2"}};
    }};

// --- Experts ------------------------------------------------------------------------------------

static RouterRules router_rules(const ModelConfig& c) {
  RouterRules rules{.chosen = c.moe_router_topk};
  if (c.moe_router_score_function == "sigmoid" || (c.has_sinkhorn() && c.moe_router_topk == 1))
    rules.scores = RouterScores::sigmoid;
  else if (c.moe_router_score_function == "sqrtsoftplus")
    rules.scores = RouterScores::sqrt_softplus;
  else if (c.moe_router_pre_softmax || c.has_sinkhorn())
    rules.scores = RouterScores::softmax_of_all;
  if (c.moe_router_num_groups > 0) {
    rules.groups = c.moe_router_num_groups;
    rules.kept_groups = c.moe_router_group_topk;
    rules.groups_by_best = c.moe_router_group_score == "max";
  }
  if (c.moe_router_topk_scaling_factor != 0) rules.scale = c.moe_router_topk_scaling_factor;
  return rules;
}

static RouterType router_type(const ModelConfig& c) {
  return c.moe_router_dtype == "fp64"   ? RouterType::f64
         : c.moe_router_dtype == "fp32" ? RouterType::f32
                                        : RouterType::own;
}

static std::vector<BalanceLoss> balance_losses(const ModelConfig& c) {
  using enum BalanceLoss::Over;
  std::vector<BalanceLoss> losses;
  for (std::size_t i = 0; i < c.moe_aux_loss_coeff.size(); ++i) {
    const std::string& type = c.moe_router_load_balancing_type[i];
    losses.push_back({.over = type == "seq_aux_loss"      ? sequences
                              : type == "global_aux_loss" ? global_batch
                                                          : micro_batch,
                      .weight = c.moe_aux_loss_coeff[i]});
  }
  return losses;
}

static std::optional<SharedExperts> make_shared_experts(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, f = c.moe_shared_expert_intermediate_size,
                     fc1_rows = c.is_gated() ? 2 * f : f;
  if (f == 0) return {};
  const auto linear = [&](const char* module, const Shape& shape, const Initializer& init,
                          std::vector<Segment> segments, Purpose adapter) {
    return layer.make_linear(layer.row(module, "weight", shape, init, std::move(segments)), false,
                             adapter);
  };
  const Linear fc1 = linear("mlp.shared_experts.linear_fc1", {fc1_rows, h},
                            matrix_init(c, {fc1_rows, h}), rows_of_fc1(c, f, ShardAxis::tp),
                            Purpose::fc1_adapter_dropout),
               fc2 = linear("mlp.shared_experts.linear_fc2", {h, f}, layer.output_init(),
                            {{"up", f, 1, ShardAxis::tp}}, Purpose::fc2_adapter_dropout);
  if (!c.moe_shared_expert_gate) return SharedExperts(fc1, fc2, nullptr, c.activation());
  Param gate = layer.row("mlp.shared_experts", "gate_weight", {1, h}, matrix_init(c, {1, h}));
  if (layer.part.sequence_parallel) gate.summed_over = SummedOver::tp;
  return SharedExperts(fc1, fc2, &layer.table.add(std::move(gate)), c.activation());
}

// A bias is no parameter: a step's end changes it by how often experts were chosen.
static const Param* make_expert_bias(const LayerRows& layer) {
  if (!layer.config.moe_router_enable_expert_bias) return nullptr;
  Param bias = layer.row("mlp.router", "expert_bias", {layer.config.num_experts}, {});
  bias.trainable = false;
  bias.is_buffer = true;
  bias.dtype = DType::f32;
  return &layer.table.add(std::move(bias));
}

// Nor is one by which logits choose: it is set to quantiles of these.
static const Param* make_quantiles(const LayerRows& layer) {
  if (!layer.config.has_quantiles()) return nullptr;
  Param beta = layer.row("mlp.router", "qb_beta", {layer.config.num_experts}, {});
  beta.trainable = false;
  beta.is_buffer = true;
  beta.dtype = DType::f32;
  return &layer.table.add(std::move(beta));
}

// A bias beside the weight of a router, or of an expert's module.
static const Param* make_bias(const LayerRows& layer, const Param& weight) {
  if (!layer.config.add_bias_linear) return nullptr;
  Param bias = layer.row(weight.place.module, "bias", {weight.shape[0]}, {});
  bias.place.expert = weight.place.expert;
  bias.experts = weight.experts;
  bias.copies = weight.copies;
  bias.summed_over = weight.summed_over;
  for (const Segment& segment : weight.segments)
    if (segment.dimension == 0) bias.segments.push_back(segment);
  return &layer.table.add(std::move(bias));
}

static std::optional<Experts::Latents> make_latents(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, width = c.moe_latent_size;
  if (width == 0) return {};
  const auto linear = [&](const char* module, const Shape& shape, const Initializer& init) {
    Param row = layer.row(module, "weight", shape, init);
    if (layer.part.sequence_parallel) row.summed_over = SummedOver::tp;
    return Linear(layer.table, std::move(row), false);
  };
  const Linear down = linear("mlp.fc1_latent_proj", {width, h}, matrix_init(c, {width, h})),
               up = linear("mlp.fc2_latent_proj", {h, width}, layer.output_init());
  return Experts::Latents{down, up};
}

// A Mixtral's router and experts take the place of an MLP.
static Branch make_experts(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, width = c.moe_latent_size > 0 ? c.moe_latent_size : h,
                     f = c.expert_ffn(), count = c.num_experts, fc1_rows = c.is_gated() ? 2 * f : f;
  const std::optional<Norm> norm = layer.make_pre_norm("pre_mlp_layernorm", "weight");
  Param router = layer.row("mlp.router", "weight", {count, h}, matrix_init(c, {count, h}));
  if (layer.part.sequence_parallel) router.summed_over = SummedOver::tp;
  const Param& gate = layer.table.add(std::move(router));
  const RouterProduct logits(gate, make_bias(layer, gate), router_type(c));
  const Param* const bias = make_expert_bias(layer);
  const Param* const quantiles = make_quantiles(layer);
  const std::optional<Experts::Latents> latents = make_latents(layer);
  const Share& share = layer.part.experts;
  const std::int64_t here = count / share.ranks, first = here * share.rank;
  std::vector<Experts::Expert> experts;
  for (std::int64_t expert = first; expert < first + here; ++expert) {
    const auto add = [&](const char* module, const Shape& shape, const Initializer& of,
                         std::vector<Segment> segments) {
      Param row = layer.row(module, "weight", shape, of, std::move(segments));
      row.place.expert = expert;
      row.experts = count;
      row.copies = Copies::experts;
      row.reads_blocks = true;
      row.gradient_replaced = true;
      return &layer.table.add(std::move(row));
    };
    const Param* const fc1 = add("linear_fc1", {fc1_rows, width}, matrix_init(c, {fc1_rows, width}),
                                 rows_of_fc1(c, f, ShardAxis::expert_tp));
    const Param* const fc1_bias = make_bias(layer, *fc1);
    const Param* const fc2 =
        add("linear_fc2", {width, f}, layer.output_init(), {{"up", f, 1, ShardAxis::expert_tp}});
    experts.push_back({fc1, fc2, fc1_bias, make_bias(layer, *fc2)});
  }
  return Branch(
      norm,
      Experts(logits, std::move(experts),
              {.rules = router_rules(c),
               .layer = layer.layer,
               .hidden_dropout = c.post_layernorm ? 0 : c.hidden_dropout,
               .shared = make_shared_experts(layer),
               .latents = latents,
               .capacity_factor = c.moe_expert_capacity_factor,
               .keeps_first = c.moe_token_drop_policy == "position",
               .bias = bias,
               .sinkhorn = c.has_sinkhorn(),
               .quantiles = quantiles,
               .jitter = c.moe_input_jitter_eps,
               .activation = c.activation(),
               .clamped = c.quick_geglu ? std::optional(ClampedGate{c.activation_func_clamp_value,
                                                                    c.glu_linear_offset})
                                        : std::nullopt,
               .recompute_activation = c.recompute.part("moe_act"),
               .balances = balance_losses(c),
               .z = c.moe_z_loss_coeff}),
      c.recompute.part("layernorm"), layer.make_behind("mlp", Purpose::hidden_dropout2));
}

extern const BranchKind kExperts{
    .letter = 'E',
    .make = make_experts,
    .extra_states =
        [](const ModelConfig& c) {
          using enum ExtraState::Turn;
          std::vector<ExtraState> states;
          if (c.pre_layernorm) states.push_back({"pre_mlp_layernorm"});
          if (c.moe_latent_size > 0)
            for (const char* module : {"mlp.fc1_latent_proj", "mlp.fc2_latent_proj"})
              states.push_back({module});
          states.push_back({"linear_fc1", behind_layers, true});
          states.push_back({"linear_fc2", behind_layers, true});
          if (c.moe_shared_expert_intermediate_size > 0)
            for (const char* module :
                 {"mlp.shared_experts.linear_fc1", "mlp.shared_experts.linear_fc2"})
              states.push_back({module, end_of_layer});
          return states;
        },
    .keep =
        [](CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
          if (c.keeps_choices) shape.choices = {room.pages, room.page_tokens, 1, c.moe_router_topk};
        }};

}  // namespace mt
