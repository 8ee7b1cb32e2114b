// Tiny models for tests.
#pragma once

#include "model/config/model_config.h"

namespace mt {

inline ModelConfig tiny_gpt2() {
  ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 16;
  c.num_attention_heads = 4;
  c.max_position_embeddings = 8;
  c.vocab_size = 24;
  c.make_vocab_size_divisible_by = 8;
  c.attention_dropout = c.hidden_dropout = 0;
  c.init_method_std = 0.3;  // so that no gradient is small
  c.complete();
  return c;
}

inline ModelConfig tiny_llama() {
  ModelConfig c = tiny_gpt2();
  c.ffn_hidden_size = 40;
  c.group_query_attention = true;
  c.num_query_groups = 2;
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = true;
  c.add_bias_linear = false;
  c.untie_embeddings_and_output_weights = true;
  c.complete();
  return c;
}

inline ModelConfig tiny_mixtral() {
  ModelConfig c = tiny_llama();
  c.family = ModelFamily::mixtral;
  c.num_experts = 5;
  c.moe_router_topk = 2;
  c.complete();
  return c;
}

// Experts without gates, as Megatron-LM's are unless another activation is said, and one that all
// tokens go to.  Each token goes to all others, too, so that no small step changes what it chooses.
inline ModelConfig tiny_gelu_experts() {
  ModelConfig c = tiny_gpt2();
  c.family = ModelFamily::mixtral;
  c.num_experts = c.moe_router_topk = 3;
  c.ffn_hidden_size = 24;
  c.add_bias_linear = c.bias_gelu_fusion = false;
  c.moe_shared_expert_intermediate_size = 12;
  c.moe_shared_expert_gate = true;
  c.complete();
  return c;
}

// With biases, and GeLU in its tanh form.
inline ModelConfig tiny_biased_experts() {
  ModelConfig c = tiny_gelu_experts();
  c.add_bias_linear = c.bias_gelu_fusion = true;
  c.moe_shared_expert_intermediate_size = 0;
  c.moe_shared_expert_gate = false;
  c.complete();
  return c;
}

// Experts with biases and gates of their own, sinks in heads, and a window in every other layer.
inline ModelConfig tiny_gpt_oss() {
  ModelConfig c = tiny_mixtral();
  c.swiglu = false;
  c.quick_geglu = c.add_bias_linear = true;
  c.bias_gelu_fusion = false;
  c.glu_linear_offset = 1;
  c.activation_func_clamp_value = 7;
  c.softmax_type = "learnable";
  c.window_size = "2,0";
  c.window_attn_skip_freq = {1, 0};
  c.complete();
  return c;
}

// Three heads, and more channels of a value than of a key.
inline ModelConfig tiny_latent() {
  ModelConfig c = tiny_llama();
  c.hidden_size = 18;
  c.num_attention_heads = 3;
  c.group_query_attention = false;
  c.multi_latent_attention = c.qk_layernorm = true;
  c.q_lora_rank = 7;
  c.kv_lora_rank = 5;
  c.qk_head_dim = 3;
  c.qk_pos_emb_head_dim = 4;
  c.v_head_dim = 9;
  c.rotary_scaling_factor = 4;
  c.mscale = 0.7;
  c.original_max_position_embeddings = 4;
  c.complete();
  return c;
}

// A DeepSeek-V2-Lite: no latents of queries, and a dense layer in front of experts.
inline ModelConfig tiny_latent_experts() {
  ModelConfig c = tiny_latent();
  c.q_lora_rank.reset();
  c.v_head_dim = 5;
  c.family = ModelFamily::mixtral;
  c.num_experts = 4;
  c.moe_router_topk = 2;
  c.moe_router_pre_softmax = true;
  c.moe_router_num_groups = c.moe_router_group_topk = 2;
  c.moe_router_group_score = "max";
  c.moe_shared_expert_intermediate_size = 6;
  c.moe_layer_freq = "[0,1]";
  c.complete();
  return c;
}

// Predicts further tokens.
inline ModelConfig further(ModelConfig c, std::int64_t tokens) {
  c.mtp_num_layers = tokens;
  c.complete();
  return c;
}

// A layer for each letter.
inline ModelConfig tiny_hybrid(const char* pattern = "M*-M") {
  ModelConfig c = tiny_llama();
  c.family = ModelFamily::mamba;
  c.hybrid_pattern = pattern;
  c.num_layers = std::ssize(c.hybrid_pattern);
  c.position_embedding_type = "none";
  c.swiglu = c.bias_gelu_fusion = false;
  c.squared_relu = true;
  c.mamba_head_dim = 8;
  c.mamba_state_dim = 6;
  c.mamba_num_groups = 2;
  c.complete();
  return c;
}

inline ModelConfig with_dropout(ModelConfig c) {
  c.attention_dropout = 0.2;
  c.hidden_dropout = 0.1;
  return c;
}

}  // namespace mt
