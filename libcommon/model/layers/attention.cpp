// The rows of a layer's self-attention: linear_qkv, with the norm in front of it, norms of heads,
// and linear_proj.
#include "model/layers/layer_rows.h"

namespace mt {

// GPT-2 keeps all queries, then all keys, then all values in one matrix; Llama keeps three
// matrices.
static std::vector<ForeignName> qkv_names(const HfNames& names, const ModelConfig& c) {
  const std::int64_t d = c.head_dim(), per_group = c.num_attention_heads / c.kv_heads();
  const std::int64_t period = (per_group + 2) * d;
  const Transform q{pick_rows(period, 0, per_group * d)}, k{pick_rows(period, per_group * d, d)},
      v{pick_rows(period, (per_group + 1) * d, d)};
  if (names.gpt2)
    return {names.matrix("attn.c_attn.weight", "", {exchange(c.num_attention_heads, 3)})};
  return {names.matrix("", "self_attn.q_proj.weight", q),
          names.matrix("", "self_attn.k_proj.weight", k),
          names.matrix("", "self_attn.v_proj.weight", v)};
}

static SelfAttention::HeadNorms make_head_norms(const LayerRows& layer) {
  const ModelConfig& c = layer.config;
  const auto head_norm = [&](const char* name, const char* in_llama) {
    const HfNames hf = layer.hf();
    std::vector<ForeignName> foreign;
    if (!hf.gpt2) foreign.push_back(hf.vector("", in_llama));
    Param param = layer.row(name, {c.head_dim()}, {}, {}, std::move(foreign));
    param.sum_gradient_over_tp = layer.part.ranks > 1;  // each rank has other heads
    return Norm(layer.table, std::move(param), c.norm_kind(), c.norm_epsilon, c.apply_layernorm_1p);
  };
  return {.q = head_norm("self_attention.q_layernorm.weight", "self_attn.q_norm.weight"),
          .k = head_norm("self_attention.k_layernorm.weight", "self_attn.k_norm.weight")};
}

Branch make_attention(const LayerRows& layer, ConstTensor inv_freq) {
  const ModelConfig& c = layer.config;
  const HfNames hf = layer.hf();
  const std::int64_t h = c.hidden_size, d = c.head_dim(), heads = c.num_attention_heads,
                     groups = c.kv_heads(), qkv_rows = (heads + 2 * groups) * d;
  const Norm norm = layer.norm("self_attention.linear_qkv.layer_norm_weight",
                               {hf.vector("ln_1.weight", "input_layernorm.weight")});
  const Linear qkv(
      layer.table,
      layer.row(
          "self_attention.linear_qkv.weight", {qkv_rows, h}, matrix_init(c, {qkv_rows, h}),
          {{"qkv", qkv_rows, 0, ShardAxis::tp, qkv_rows / groups, {heads / groups * d, d, d}}},
          qkv_names(hf, c)),
      c.has_qkv_bias());
  SelfAttention::HeadNorms head_norms;
  if (c.qk_layernorm) head_norms = make_head_norms(layer);
  const Linear proj(
      layer.table,
      layer.row("self_attention.linear_proj.weight", {h, heads * d}, layer.output_init(),
                {{"heads", heads * d, 1, ShardAxis::tp, d * heads / groups}},
                {hf.matrix("attn.c_proj.weight", "self_attn.o_proj.weight")}),
      c.add_bias_linear);
  const SelfAttention::Options options{
      .core = {.layer = layer.layer,
               .heads = heads / layer.part.ranks,
               .kv_heads = groups / layer.part.ranks,
               .head_dim = d,
               .first_head = layer.part.rank * (heads / layer.part.ranks),
               .dropout = c.attention_dropout,
               .recompute = c.recompute.part("core_attn")},
      .window = c.window(layer.layer),
      .hidden_dropout = c.hidden_dropout,
      .inv_freq = inv_freq,
      .rotary_interleaved = c.rotary_interleaved};
  return {norm, SelfAttention(qkv, proj, options, head_norms), c.recompute.part("layernorm")};
}

}  // namespace mt
