// The rows of a layer with the gated delta rule in the place of attention: in_proj, with the norm
// in front of it, conv1d, what heads have, out_norm, and out_proj (Megatron's main,
// core/ssm/gated_delta_net.py).
#include "nn/gated_delta_net.h"

#include <cmath>

#include "model/layers/layer_rows.h"
#include "nn/kv_cache.h"

namespace mt {

static DeltaShape shape_of(const ModelConfig& c, int ranks) {
  return {.key_heads = c.linear_num_key_heads / ranks,
          .value_heads = c.linear_num_value_heads / ranks,
          .key_dim = c.linear_key_head_dim,
          .value_dim = c.linear_value_head_dim,
          .taps = c.linear_conv_kernel_dim};
}

static Branch make_gated_delta(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const DeltaShape all = shape_of(c, 1);
  const std::int64_t h = c.hidden_size, heads = all.value_heads;
  const auto cut = [](const char* name, std::int64_t extent, int dimension = 0) {
    return Segment{name, extent, dimension, ShardAxis::tp};
  };
  const auto row = [&](const char* module, const char* param, const Shape& shape,
                       const Initializer& init, std::vector<Segment> segments) {
    Param made = layer.row(module, param, shape, init, std::move(segments));
    made.key_by_segments = made.segments.size() > 1;
    return made;
  };
  const auto add = [&](const char* module, const char* param, const Shape& shape,
                       const Initializer& init, std::vector<Segment> segments) {
    return &layer.table.add(row(module, param, shape, init, std::move(segments)));
  };
  const std::vector<Segment> mixed = {cut("query", all.keys()), cut("key", all.keys()),
                                      cut("value", all.values())};
  std::vector<Segment> projected = mixed;
  for (const Segment& segment : {cut("z", all.values()), cut("beta", heads), cut("alpha", heads)})
    projected.push_back(segment);
  const Initializer ones{Initializer::Kind::ones},
      // As torch.nn.Conv1d draws it: uniform within 1 / sqrt(taps).
      of_conv{Initializer::Kind::uniform, 1 / std::sqrt(3 * static_cast<double>(all.taps))};
  const Norm norm = layer.make_branch_norm("self_attention.in_proj", "layer_norm_weight");
  const Linear in =
      layer.make_linear(row("self_attention.in_proj", "weight", {all.projected(), h},
                            matrix_init(c, {all.projected(), h}), std::move(projected)),
                        false, Purpose::qkv_adapter_dropout);
  GatedDeltaNet::Params params{};
  params.conv_weight =
      add("self_attention.conv1d", "weight", {all.mixed(), 1, all.taps}, of_conv, mixed);
  params.dt_bias = add("self_attention", "dt_bias", {heads}, ones, {cut("heads", heads)});
  params.a_log =
      add("self_attention", "A_log", {heads}, {Initializer::Kind::decays}, {cut("heads", heads)});
  Param scale = layer.row("self_attention.out_norm", "weight", {all.value_dim},
                          c.apply_layernorm_1p ? Initializer{} : ones);
  if (layer.part.ranks > 1) scale.summed_over = SummedOver::tp;  // each rank has other heads
  params.norm = &layer.table.add(std::move(scale));
  const Linear out = layer.make_linear(row("self_attention.out_proj", "weight", {h, all.values()},
                                           layer.output_init(), {cut("value", all.values(), 1)}),
                                       false, Purpose::proj_adapter_dropout);
  return Branch(
      norm,
      GatedDeltaNet(in, out, params,
                    {.shape = shape_of(c, layer.part.ranks),
                     .layer = layer.layer,
                     .norm = {.eps = c.norm_epsilon, .zero_centered = c.apply_layernorm_1p},
                     .hidden_dropout = c.post_layernorm ? 0 : c.hidden_dropout}),
      c.recompute.part("layernorm"),
      layer.make_behind("self_attention.out_proj", Purpose::hidden_dropout1));
}

extern const BranchKind kGatedDelta{
    .letter = 'G',
    .make = make_gated_delta,
    .extra_states =
        [](const ModelConfig&) {
          return std::vector<ExtraState>{
              {"self_attention.in_proj"}, {"self_attention.out_norm"}, {"self_attention.out_proj"}};
        },
    // Convolution and rule, as num_floating_point_operations() of Megatron's main has them.
    .flops =
        [](const ModelConfig& c, double /*length*/, double /*memory*/) {
          const DeltaShape s = shape_of(c, 1);
          return 6 * static_cast<double>(s.taps * s.mixed() +
                                         4 * s.value_heads * s.value_dim * s.value_dim);
        },
    .keep =
        [](CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
          const DeltaShape s = shape_of(c, room.ranks);
          shape.convolved = {room.slots, s.taps - 1, s.mixed()};
          shape.states = {room.slots, s.value_heads, s.key_dim, s.value_dim};
        }};

}  // namespace mt
