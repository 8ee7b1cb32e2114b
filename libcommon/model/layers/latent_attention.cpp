// The rows of a layer's latent attention: input_layernorm, which stands alone; linear_q_proj, or
// linear_q_down_proj and linear_q_up_proj; linear_kv_down_proj and linear_kv_up_proj, each norm of
// a latent with the projection up that reads it; and linear_proj.
#include <cmath>

#include "kernels/cached_latents.h"
#include "model/layers/layer_rows.h"
#include "nn/kv_cache.h"

namespace mt {
namespace {

LatentHeads heads_of(const ModelConfig& c, std::int64_t ranks) {
  return {.heads = c.num_attention_heads / ranks,
          .fixed = c.qk_head_dim,
          .turning = c.qk_pos_emb_head_dim,
          .values = c.v_head_dim};
}

// A projection to all heads, so many rows of each.
Linear make_up(const LayerRows& layer, const char* module, std::int64_t of_head, std::int64_t in) {
  const std::int64_t rows = layer.config.num_attention_heads * of_head;
  return {layer.table,
          layer.row(module, "weight", {rows, in}, matrix_init(layer.config, {rows, in}),
                    {{"heads", rows, 0, ShardAxis::tp, of_head}}),
          false};
}

LatentAttention::Latent make_latent(const LayerRows& layer, const char* down, const char* up,
                                    std::int64_t rank, std::int64_t beside) {
  const std::int64_t h = layer.config.hidden_size;
  Param row =
      layer.row(down, "weight", {rank + beside, h}, matrix_init(layer.config, {rank + beside, h}));
  if (layer.part.sequence_parallel) row.summed_over = SummedOver::tp;
  LatentAttention::Latent latent{Linear(layer.table, std::move(row), false), {}};
  if (!layer.config.qk_layernorm) return latent;
  Param scale = layer.row(up, "layer_norm_weight", {rank}, {});
  if (layer.part.sequence_parallel) scale.summed_over = SummedOver::tp;
  latent.norm = layer.make_norm(std::move(scale), layer.config.latent_norm_epsilon);
  return latent;
}

Branch make_latent_attention(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const LatentHeads all = heads_of(c, 1), own = heads_of(c, layer.part.ranks);
  const std::int64_t h = c.hidden_size, inner = all.heads * all.values;
  const Norm norm = layer.make_branch_norm("input_layernorm", "weight");
  std::optional<LatentAttention::Latent> of_q;
  if (c.q_lora_rank)
    of_q = make_latent(layer, "self_attention.linear_q_down_proj",
                       "self_attention.linear_q_up_proj", *c.q_lora_rank, 0);
  const Linear q_up =
      make_up(layer, of_q ? "self_attention.linear_q_up_proj" : "self_attention.linear_q_proj",
              all.q_width(), c.q_lora_rank.value_or(h));
  const LatentAttention::Latent of_kv =
      make_latent(layer, "self_attention.linear_kv_down_proj", "self_attention.linear_kv_up_proj",
                  c.kv_lora_rank, c.qk_pos_emb_head_dim);
  const Linear kv_up =
      make_up(layer, "self_attention.linear_kv_up_proj", all.kv_width(), c.kv_lora_rank);
  const Linear proj(
      layer.table,
      layer.row("self_attention.linear_proj", "weight", {h, inner}, layer.output_init(),
                {{"heads", inner, 1, ShardAxis::tp, all.values}}),
      c.add_bias_linear);
  const LatentAttention::Options options{
      .core = {.layer = layer.layer,
               .heads = own.heads,
               .kv_heads = own.heads,
               .head_dim = own.width(),
               .values = own.values,
               .first_head = layer.part.rank * own.heads,
               .dropout = c.attention_dropout,
               .scale = c.latent_scale() * std::sqrt(static_cast<double>(own.width())),
               .recompute = c.recompute.part("core_attn")},
      .heads = own,
      .window = c.window(layer.layer),
      .hidden_dropout = c.hidden_dropout,
      .inv_freq = layer.rotary.inv_freq[0],
      .rotary_magnitude = layer.rotary.magnitude,
      .recompute_up = c.recompute.part("mla_up_proj")};
  return Branch(norm, LatentAttention({of_q, q_up}, of_kv, kv_up, proj, options),
                c.recompute.part("layernorm"));
}

}  // namespace

extern const BranchKind kLatentAttention{
    .letter = '+',
    .make = make_latent_attention,
    .extra_states =
        [](const ModelConfig& c) {
          std::vector<ExtraState> states{{"input_layernorm"}};
          if (c.q_lora_rank) states.push_back({"self_attention.linear_q_down_proj"});
          states.push_back(
              {c.q_lora_rank ? "self_attention.linear_q_up_proj" : "self_attention.linear_q_proj"});
          for (const char* module :
               {"self_attention.linear_kv_down_proj", "self_attention.linear_kv_up_proj",
                "self_attention.linear_proj", "self_attention.core_attention"})
            states.push_back({module});
          return states;
        },
    // Half of all pairs, and an element for each channel of latents, as
    // num_floating_point_operations() has it.
    .flops =
        [](const ModelConfig& c, double length, double /*memory*/) {
          const LatentHeads of = heads_of(c, 1);
          return 6 * (static_cast<double>(c.q_lora_rank.value_or(0) + c.kv_lora_rank) +
                      length / 2 * static_cast<double>(of.heads * (of.q_width() + of.values)));
        },
    .keep =
        [](CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
          const std::int64_t width = c.qk_pos_emb_head_dim + c.kv_lora_rank;
          if (width <= kWidestLatents)
            shape.latents = {room.pages, room.page_tokens, 1, width};
          else
            shape.keys = {room.pages, room.page_tokens, c.num_attention_heads / room.ranks,
                          c.head_dim()};
        }};

}  // namespace mt
