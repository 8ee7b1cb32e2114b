// The rows of a layer's self-attention: linear_qkv, with the norm in front of it, norms of heads,
// and linear_proj; and those of its cross-attention.
#include <cmath>
#include <utility>

#include "model/layers/layer_rows.h"
#include "nn/kv_cache.h"

namespace mt {

static SelfAttention::HeadNorms make_head_norms(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const bool whole = c.qk_layernorm_whole;
  const auto head_norm = [&](const char* module, std::int64_t heads) -> SelfAttention::HeadNorm {
    if (c.qk_layernorm_per_head) {
      const std::int64_t d = c.head_dim(), width = heads * d;
      Param scales = layer.row(module, "weight", {width}, {Initializer::Kind::ones},
                               {{"heads", width, 0, ShardAxis::tp, width / c.kv_heads()}});
      return {Norm(layer.table, {},
                   {.kind = c.norm_kind(), .eps = c.norm_epsilon, .has_weight = false}),
              &layer.table.add(std::move(scales))};
    }
    Param scale = layer.row(module, "weight", {(whole ? heads : 1) * c.head_dim()}, {});
    if (layer.part.ranks > 1) scale.summed_over = SummedOver::tp;  // each rank has other heads
    return {layer.make_norm(std::move(scale))};
  };
  return {.q = head_norm("self_attention.q_layernorm", c.num_attention_heads),
          .k = head_norm("self_attention.k_layernorm", c.kv_heads())};
}

// Beside 1 / sqrt(head width).  Where all channels turn, what multiplies queries and keys does so
// to scores.
static double scale_of_scores(const ModelConfig& c, bool windowed) {
  const double turned = c.turns_in_part() || windowed ? 1 : c.rope_attention_factor;
  const double scale =
      c.softmax_scale ? *c.softmax_scale * std::sqrt(static_cast<double>(c.head_dim())) : 1;
  return turned * turned * scale;
}

static HeadSink make_sink(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  HeadSink sink{.is_there = c.has_sinks()};
  if (c.softmax_type != "learnable") return sink;
  const std::int64_t heads = c.num_attention_heads;
  sink.scores =
      &layer.table.add(layer.row("self_attention.core_attention", "softmax_offset", {heads},
                                 {Initializer::Kind::normal, c.init_method_std},
                                 {{"heads", heads, 0, ShardAxis::tp, heads / c.kv_heads()}}));
  return sink;
}

SelfAttention make_self_attention(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, d = c.head_dim(), heads = c.num_attention_heads,
                     groups = c.kv_heads(), of_group = heads / groups * d,
                     gates = c.attention_output_gate ? of_group : 0,
                     group_rows = of_group + gates + 2 * d, qkv_rows = groups * group_rows;
  std::vector<std::int64_t> parts = {of_group, d, d};
  if (gates > 0) parts.insert(parts.begin() + 1, gates);
  const Linear qkv = layer.make_linear(
      layer.row("self_attention.linear_qkv", "weight", {qkv_rows, h}, matrix_init(c, {qkv_rows, h}),
                {{"qkv", qkv_rows, 0, ShardAxis::tp, group_rows, std::move(parts)}}),
      c.has_qkv_bias(), Purpose::qkv_adapter_dropout);
  SelfAttention::HeadNorms head_norms;
  if (c.qk_layernorm) head_norms = make_head_norms(layer);
  const Linear proj = layer.make_linear(
      layer.row("self_attention.linear_proj", "weight", {h, heads * d}, layer.output_init(),
                {{"heads", heads * d, 1, ShardAxis::tp, d * heads / groups}}),
      c.has_proj_bias(), Purpose::proj_adapter_dropout);
  const HeadSink sink = make_sink(layer);
  const bool windowed = c.turns_by_window(layer.layer), turns = c.turns(layer.layer);
  const std::size_t table = windowed ? 1 : 0;
  const std::int64_t own_heads = heads / layer.part.ranks, first_head = layer.part.rank * own_heads;
  const SelfAttention::Options options{
      .core = {.layer = layer.layer,
               .heads = own_heads,
               .kv_heads = groups / layer.part.ranks,
               .head_dim = d,
               .first_head = first_head,
               .dropout = c.attention_dropout,
               .scale = scale_of_scores(c, windowed),
               .softcap = c.attn_logit_softcapping,
               .sink = sink,
               .angles = turns && !c.qk_layernorm_behind_rope ? std::optional(table) : std::nullopt,
               .recompute = c.recompute.part("core_attn")},
      .window = c.window(layer.layer),
      .hidden_dropout = c.post_layernorm ? 0 : c.hidden_dropout,
      .inv_freq = turns ? layer.rotary.inv_freq[table] : ConstTensor(),
      .rotary_interleaved = c.rotary_interleaved,
      .rotary_magnitude = layer.rotary.magnitude,
      .norms_of_all = c.qk_layernorm_whole,
      .gated = c.attention_output_gate,
      .norms_behind = c.qk_layernorm_behind_rope,
      .clip = c.clip_qkv,
      .bias =
          c.has_alibi() ? std::optional(RelativeBias(heads, first_head, own_heads)) : layer.bias};
  return {qkv, proj, options, head_norms};
}

static Branch make_attention(const LayerRows& layer) {
  const std::optional<Norm> norm =
      layer.make_pre_norm("self_attention.linear_qkv", "layer_norm_weight");
  const SelfAttention attention = make_self_attention(layer);
  return Branch(norm, attention, layer.config.recompute.part("layernorm"),
                layer.make_behind("self_attention.linear_proj", Purpose::hidden_dropout1));
}

std::vector<ExtraState> extra_states_of_attention(const ModelConfig& c) {
  std::vector<ExtraState> states{{"self_attention.linear_qkv"},
                                 {"self_attention.linear_proj"},
                                 {"self_attention.core_attention"}};
  if (c.qk_layernorm)
    for (const char* norm : {"self_attention.q_layernorm", "self_attention.k_layernorm"})
      states.push_back({norm, ExtraState::Turn::end_of_layer});
  return states;
}

// Scores and what is attended to: half of all pairs, as model_flops() has it.
double flops_of_attention(const ModelConfig& c, double length, double /*memory*/) {
  return 6 * length * static_cast<double>(c.num_attention_heads * c.head_dim());
}

void keep_of_attention(CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
  shape.keys = {room.pages, room.page_tokens, c.kv_heads() / room.ranks, c.head_dim()};
}

extern const BranchKind kAttention{.letter = '*',
                                   .make = make_attention,
                                   .extra_states = extra_states_of_attention,
                                   .flops = flops_of_attention,
                                   .keep = keep_of_attention};

// --- Cross-attention ----------------------------------------------------------------------------

CrossAttention make_cross_attention_module(const LayerRows& layer, const std::string& module,
                                           const Initializer& output_init) {
  const ModelConfig& c = layer.config;
  const std::int64_t h = c.hidden_size, d = c.head_dim(), heads = c.num_attention_heads,
                     inner = heads * d, own_heads = heads / layer.part.ranks;
  const auto add = [&](const char* linear, const Shape& shape, const Initializer& init,
                       Segment segment, Purpose adapter_dropout) {
    segment.axis = ShardAxis::tp;
    return layer.make_linear(
        layer.row(module + linear, "weight", shape, init, {std::move(segment)}), c.add_bias_linear,
        adapter_dropout);
  };
  const Shape of_q{inner, h}, of_kv{2 * inner, h}, of_proj{h, inner};
  const Linear q =
      add(".linear_q", of_q, matrix_init(c, of_q), {.name = "q", .extent = inner, .granularity = d},
          Purpose::cross_q_adapter_dropout);
  const Linear kv = add(".linear_kv", of_kv, matrix_init(c, of_kv),
                        {.name = "kv", .extent = 2 * inner, .granularity = 2 * d, .parts = {d, d}},
                        Purpose::cross_kv_adapter_dropout);
  const Linear proj = add(".linear_proj", of_proj, output_init,
                          {.name = "heads", .extent = inner, .dimension = 1, .granularity = d},
                          Purpose::cross_proj_adapter_dropout);
  const CrossAttention::Options options{.core = {.layer = layer.layer,
                                                 .heads = own_heads,
                                                 .kv_heads = own_heads,
                                                 .head_dim = d,
                                                 .first_head = layer.part.rank * own_heads,
                                                 .dropout = c.attention_dropout,
                                                 .purpose = Purpose::cross_attention_dropout,
                                                 .recompute = c.recompute.part("core_attn")},
                                        .hidden_dropout = c.hidden_dropout};
  return {q, kv, proj, options};
}

// It stands between the attention and the MLP of a T5's decoder.
static Branch make_cross_attention(const LayerRows& layer) {
  const Norm norm = layer.make_branch_norm("pre_cross_attn_layernorm", "weight");
  return Branch(norm, make_cross_attention_module(layer, "cross_attention", layer.output_init()),
                layer.config.recompute.part("layernorm"));
}

extern const BranchKind kCrossAttention{
    .letter = 'x',
    .make = make_cross_attention,
    .extra_states =
        [](const ModelConfig&) {
          std::vector<ExtraState> states;
          for (const char* module :
               {"pre_cross_attn_layernorm", "cross_attention.linear_q", "cross_attention.linear_kv",
                "cross_attention.linear_proj", "cross_attention.core_attention"})
            states.push_back({module, ExtraState::Turn::behind_layers});
          return states;
        },
    // All pairs; and it is the memory's tokens that linear_kv is of, not the layer's.
    .flops =
        [](const ModelConfig& c, double /*length*/, double memory) {
          return 12 * memory * static_cast<double>(c.num_attention_heads * c.head_dim());
        },
    .reads =
        [](const ModelConfig& /*c*/, const RowPlace& matrix, double length, double memory) {
          return matrix.module == "cross_attention.linear_kv" ? memory / length : 1;
        },
    .keep =
        [](CacheShape& shape, const ModelConfig& c, const CacheRoom& room) {
          shape.memory = {room.slots, room.memory,
                          2 * c.num_attention_heads / room.ranks * c.head_dim()};
        }};

const Param& declare_relative_bias(const ModelRows& rows, std::string_view stack) {
  return rows.table.add(
      {.place = {.stack = stack, .module = "relative_attention_bias", .param = "weight"},
       .shape = {rows.config.relative_attention_num_buckets, rows.config.num_attention_heads},
       .init = {Initializer::Kind::normal, rows.config.init_method_std},
       // Each rank has other heads.
       .summed_over = rows.part.ranks > 1 ? SummedOver::tp : SummedOver::none});
}

}  // namespace mt
