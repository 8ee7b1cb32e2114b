// Small models with initial weights, for the tests of what runs on them.
#pragma once

#include <memory>

#include "model/config/model_config.h"
#include "model/families/gpt.h"

namespace mt {

inline ModelConfig small_gpt2() {
  ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.max_position_embeddings = 12;
  config.vocab_size = 30;
  config.make_vocab_size_divisible_by = 16;
  config.init_method_std = 0.4;  // so that predictions differ
  return config;
}

inline ModelConfig small_llama() {
  ModelConfig config = small_gpt2();
  config.num_attention_heads = 4;
  config.group_query_attention = true;
  config.num_query_groups = 2;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  config.swiglu = true;
  config.ffn_hidden_size = 24;
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  return config;
}

inline ModelConfig small_hybrid() {
  ModelConfig config = small_llama();
  config.family = ModelFamily::mamba;
  config.hybrid_pattern = "M*-M";
  config.num_layers = 4;
  config.mamba_head_dim = 8;
  config.mamba_state_dim = 6;
  config.mamba_num_groups = 2;
  return config;
}

// With the gated delta rule between layers whose attention has a gate.
inline ModelConfig small_delta() {
  ModelConfig config = small_llama();
  config.num_layers = 3;
  config.attention_output_gate = config.apply_layernorm_1p = config.qk_layernorm = true;
  config.experimental_attention_variant = kGatedDeltaNet;
  config.linear_attention_freq = "[1,0,1]";
  config.linear_conv_kernel_dim = 3;
  config.linear_key_head_dim = 5;
  config.linear_value_head_dim = 7;
  config.linear_num_key_heads = 4;
  config.linear_num_value_heads = 8;
  return config;
}

// With experts as layers of their own.
inline ModelConfig small_mixture() {
  ModelConfig config = small_hybrid();
  config.hybrid_pattern = "ME*E";
  config.num_experts = 4;
  config.moe_shared_expert_intermediate_size = 12;
  return config;
}

// With latent attention, whose values are wider than its queries, and YaRN.
inline ModelConfig small_latent() {
  ModelConfig config = small_llama();
  config.num_attention_heads = 3;
  config.group_query_attention = false;
  config.num_query_groups = 1;
  config.multi_latent_attention = config.qk_layernorm = true;
  config.q_lora_rank = 9;
  config.kv_lora_rank = 10;
  config.qk_head_dim = 5;
  config.qk_pos_emb_head_dim = 4;
  config.v_head_dim = 11;
  config.rotary_scaling_factor = 4;
  config.mscale = 0.7;
  return config;
}

// With latents that are too wide for a cache of them.
inline ModelConfig small_wide_latent() {
  ModelConfig config = small_latent();
  config.kv_lora_rank = 573;
  return config;
}

// With latent attention between layers that pass states on, and queries that are made of no latent.
inline ModelConfig small_latent_hybrid() {
  ModelConfig config = small_latent();
  config.family = ModelFamily::mamba;
  config.hybrid_pattern = "M+-M";
  config.num_layers = 4;
  config.q_lora_rank.reset();
  config.mamba_head_dim = 8;
  config.mamba_state_dim = 6;
  config.mamba_num_groups = 2;
  return config;
}

// What predicts so many further tokens, too.
inline ModelConfig further(ModelConfig config, std::int64_t tokens) {
  config.mtp_num_layers = tokens;
  return config;
}

inline std::unique_ptr<Gpt> make_gpt(ModelConfig config, DType dtype = DType::f64) {
  config.complete();
  auto model = std::make_unique<Gpt>(config);
  model->table().allocate(Device::cpu, dtype, false);
  Stream stream(Device::cpu, 1);
  model->initialize(1, stream);
  return model;
}

// Some tokens below `vocabulary`.
inline std::vector<std::int32_t> some_tokens(std::size_t count, std::int32_t vocabulary = 30) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i)
    ids[i] =
        static_cast<std::int32_t>((i * i * 7 + 3 * i + 1) % static_cast<std::size_t>(vocabulary));
  return ids;
}

}  // namespace mt
