// The rows of a layer that is a Mamba-2's mixer: mixer.in_proj, with the norm in front of it,
// conv1d, what heads have, the gated norm, and out_proj.  Dao, Gu (2024), arXiv:2405.21060: z
// gates, x is what is mixed, B and C map to states and back, dt is each head's step.
#include <numbers>

#include "model/layers/layer_rows.h"
#include "nn/kv_cache.h"

namespace mt {

static MambaShape shape_of(const ModelConfig& c, int ranks) {
  return {.heads = c.mamba_num_heads / ranks,
          .head_dim = c.mamba_head_dim,
          .groups = c.mamba_num_groups / ranks,
          .state_dim = c.mamba_state_dim,
          .taps = kMambaConv};
}

static Branch make_mamba(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, inner = c.mamba_inner(), states = c.mamba_states(),
                     heads = c.mamba_num_heads, projected = 2 * inner + 2 * states + heads;
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
  const std::vector<Segment> mixed = {cut("x", inner), cut("B", states), cut("C", states)};
  const Initializer ones{Initializer::Kind::ones},
      of_conv{Initializer::Kind::uniform, 0.5 / std::numbers::sqrt3};  // in [-1/2, 1/2)
  const Norm norm = layer.make_branch_norm("mixer.in_proj", "layer_norm_weight");
  const Linear in = layer.make_linear(
      row("mixer.in_proj", "weight", {projected, h}, matrix_init(c, {projected, h}),
          {cut("z", inner), cut("x", inner), cut("B", states), cut("C", states), cut("dt", heads)}),
      false, Purpose::qkv_adapter_dropout);
  Mamba::Params params{};
  params.conv_weight =
      add("mixer.conv1d", "weight", {inner + 2 * states, 1, kMambaConv}, of_conv, mixed);
  params.conv_bias = add("mixer.conv1d", "bias", {inner + 2 * states}, of_conv, mixed);
  params.dt_bias =
      add("mixer", "dt_bias", {heads}, {Initializer::Kind::steps}, {cut("heads", heads)});
  params.a_log = add("mixer", "A_log", {heads}, {Initializer::Kind::decays}, {cut("heads", heads)});
  params.d = add("mixer", "D", {heads}, ones, {cut("heads", heads)});
  params.norm = add("mixer.norm", "weight", {inner}, ones, {cut("x", inner)});
  const Linear out = layer.make_linear(
      row("mixer.out_proj", "weight", {h, inner}, layer.output_init(), {cut("x", inner, 1)}), false,
      Purpose::proj_adapter_dropout);
  return Branch(norm,
                Mamba(in, out, params,
                      {.shape = shape_of(c, layer.part.ranks),
                       .layer = layer.layer,
                       .hidden_dropout = c.hidden_dropout}),
                c.recompute.part("layernorm"),
                layer.make_behind("mixer.out_proj", Purpose::hidden_dropout1));
}

extern const BranchKind kMamba{
    .letter = 'M',
    .make = make_mamba,
    .extra_states =
        [](const ModelConfig&) {
          return std::vector<ExtraState>{{"mixer.in_proj"}, {"mixer.out_proj"}};
        },
    // The scan, as num_floating_point_operations() has it.
    .flops =
        [](const ModelConfig& c, double /*length*/, double /*memory*/) {
          return 21 * static_cast<double>(c.mamba_inner() * c.mamba_state_dim);
        },
    .keep =
        [](CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
          const MambaShape s = shape_of(c, room.ranks);
          shape.convolved = {room.slots, s.taps - 1, s.mixed()};
          shape.states = {room.slots, s.heads, s.head_dim, s.state_dim};
        }};

}  // namespace mt
