// What tests of conversions have in common: random models in folders of Hugging Face's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <set>

#include "base/half.h"
#include "ckpt/safetensors.h"
#include "formats/convert.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "model/model_table.h"
#include "tests/base/scratch.h"
#include "tests/model/tiny_models.h"
#include "tests/support/host_tensor.h"

namespace mt {

// Families whose models are what their config.json says: of two layers, 16 wide.
struct OwnConfig {
  const char *name, *type, *json;
};
inline const OwnConfig* own_config(const std::string& name) {
  static constexpr OwnConfig kOwn[] = {
      {"gpt_neox", "gpt_neox", R"("rotary_pct":0.5)"},
      {"gpt_neox_in_turn", "gpt_neox",
       R"("use_parallel_residual":false,"attention_bias":false,"rotary_pct":1.0)"},
      {"gptj", "gptj",
       R"("n_layer":2,"n_embd":16,"n_head":4,"n_inner":24,"n_positions":8,"rotary_dim":2)"},
      {"gpt_neo", "gpt_neo",
       R"("num_layers":2,"num_heads":4,"attention_types":[[["global","local"],1]],"window_size":3)"},
      {"bloom", "bloom", R"("n_layer":2,"n_head":4,"seq_length":8)"},
      {"mpt", "mpt", R"("d_model":16,"n_layers":2,"n_heads":4,"max_seq_len":8)"},
      {"hunyuan", "hunyuan_v1_dense", R"("head_dim":8)"},
      {"codegen", "codegen",
       R"("n_layer":2,"n_embd":32,"n_head":8,"n_inner":24,"n_positions":8,"rotary_dim":2)"},
      {"gpt_bigcode", "gpt_bigcode",
       R"("n_layer":2,"n_embd":16,"n_head":4,"n_inner":24,"n_positions":8)"},
      {"gpt_bigcode_heads", "gpt_bigcode",
       R"("n_layer":2,"n_embd":16,"n_head":4,"n_inner":24,"n_positions":8,"multi_query":false)"},
      {"biogpt", "biogpt", R"("scale_embedding":true)"},
      {"persimmon", "persimmon", R"("qk_layernorm":true)"},
      {"jais2", "jais2", R"("head_dim":8,"attention_bias":false)"},
      {"phi_norms", "phi", R"("partial_rotary_factor":0.5,"qk_layernorm":true)"},
      {"vaultgemma", "vaultgemma",
       R"("head_dim":8,"sliding_window":3,"layer_types":["sliding_attention","full_attention"])"},
      {"exaone", "exaone", R"("num_layers":2,"layer_norm_epsilon":1e-6)"},
      {"internlm2", "internlm2", R"("bias":false)"},
      {"minicpm", "minicpm", R"("scale_emb":12,"scale_depth":1.4,"dim_model_base":4)"},
      {"hyperclovax", "hyperclovax",
       R"("embedding_multiplier":12.0,"residual_multiplier":0.22,"logits_scaling":0.125)"},
      {"cwm", "cwm", R"("head_dim":8,"sliding_window":3)"},
      {"falcon", "falcon", R"("ffn_hidden_size":24)"},
      {"falcon_two_norms", "falcon", R"("new_decoder_architecture":true,"num_kv_heads":2)"},
      {"falcon_groups", "falcon",
       R"("new_decoder_architecture":true,"num_kv_heads":2,"bias":true)"},
      {"falcon_in_turn", "falcon", R"("parallel_attn":false,"multi_query":false,"bias":true)"},
      {"phi", "phi", R"("partial_rotary_factor":0.5)"},
      {"phi_tied", "phi", R"("partial_rotary_factor":0.5,"tie_word_embeddings":true)"},
      {"opt", "opt", R"("ffn_dim":24,"word_embed_proj_dim":16)"},
      {"stablelm", "stablelm", R"("partial_rotary_factor":0.5,"use_qkv_bias":true)"},
      {"stablelm_parallel", "stablelm",
       R"("partial_rotary_factor":1.0,"use_parallel_residual":true)"},
      {"starcoder2", "starcoder2", R"("sliding_window":4)"},
      {"starcoder2_plain", "starcoder2", R"("use_bias":false)"},
      {"stablelm_norms", "stablelm",
       R"("partial_rotary_factor":0.5,"qk_layernorm":true,"use_parallel_residual":true)"},
      {"cohere_norms", "cohere", R"("use_qk_norm":true)"},
      {"olmo_clipped", "olmo", R"("clip_qkv":0.5)"},
      {"seed_oss_biases", "seed_oss", R"("head_dim":8,"attention_out_bias":true,"mlp_bias":true)"},
      {"apertus", "apertus", R"("head_dim":8)"},
      {"nanochat", "nanochat", R"("head_dim":8)"},
      {"youtu", "youtu",
       R"("q_lora_rank":6,"kv_lora_rank":5,"qk_nope_head_dim":4,"qk_rope_head_dim":2,)"
       R"("v_head_dim":3)"},
      {"granite_swa", "granite_swa",
       R"("sliding_window":3,"attention_multiplier":0.3,"layer_rope_theta":[100.0,0])"},
      {"iquestcoder", "iquestcoder", R"("head_dim":8)"},
      {"olmo3", "olmo3",
       R"("sliding_window":3,"layer_types":["sliding_attention","full_attention"])"},
      {"olmo3_four", "olmo3",
       R"("sliding_window":3,"layer_types":["sliding_attention","full_attention"])"},
      {"exaone4_plain", "exaone4", R"("sliding_window":null)"},
      {"exaone4", "exaone4",
       R"("sliding_window":3,"layer_types":["sliding_attention","full_attention"])"},
      {"glm", "glm", R"("head_dim":8)"},
      {"glm4", "glm4", R"("head_dim":8,"attention_bias":false)"},
      {"ernie4_5", "ernie4_5", R"("head_dim":8,"use_bias":true)"},
      {"ernie4_5_plain", "ernie4_5", R"("head_dim":8)"},
      {"arcee_plain", "arcee", R"("mlp_bias":false)"},
      {"seed_oss", "seed_oss", R"("head_dim":8)"},
      {"internlm3_plain", "internlm3", R"("head_dim":8)"},
      {"internlm3", "internlm3", R"("head_dim":8,"qkv_bias":true,"bias":true)"},
      {"arcee", "arcee", R"("mlp_bias":true,"attention_bias":true)"},
      {"helium", "helium", R"("head_dim":4)"},
      {"ministral", "ministral", R"("sliding_window":3)"},
      {"ministral3", "ministral3",
       R"("head_dim":8,"rope_parameters":{"rope_type":"yarn","rope_theta":100.0,"factor":4.0,)"
       R"("original_max_position_embeddings":8,"llama_4_scaling_beta":0.1})"},
      {"dots1", "dots1",
       R"("n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":2,"norm_topk_prob":true,)"
       R"("moe_intermediate_size":12,"first_k_dense_replace":1)"},
      {"qwen3_next", "qwen3_next",
       R"("layer_types":["linear_attention","full_attention"],"head_dim":6,"num_experts":4,)"
       R"("num_experts_per_tok":2,"moe_intermediate_size":12,"shared_expert_intermediate_size":20,)"
       R"("linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":3,)"
       R"("linear_value_head_dim":5,"linear_conv_kernel_dim":3,"partial_rotary_factor":0.4)"},
      {"qwen3_5_text", "qwen3_5_text",
       R"("full_attention_interval":2,"head_dim":8,"linear_num_key_heads":2,)"
       R"("linear_num_value_heads":4,"linear_key_head_dim":3,"linear_value_head_dim":5)"},
      {"qwen3_next_dense", "qwen3_next",
       R"("layer_types":["full_attention","full_attention"],"head_dim":6,"num_experts":0,)"
       R"("partial_rotary_factor":1.0)"},
      {"dots1_mha", "dots1",
       R"("n_routed_experts":4,"num_experts_per_tok":2,"n_shared_experts":2,"norm_topk_prob":true,)"
       R"("moe_intermediate_size":32,"first_k_dense_replace":1)"},
      {"granitemoe", "granitemoe",
       R"("num_local_experts":4,"embedding_multiplier":12.0,"residual_multiplier":0.22,)"
       R"("logits_scaling":6.0,"attention_multiplier":0.3)"},
      {"granitemoeshared", "granitemoeshared",
       R"("num_local_experts":5,"shared_intermediate_size":12,"embedding_multiplier":12.0,)"
       R"("residual_multiplier":0.22,"logits_scaling":6.0,"attention_multiplier":0.3)"},
      {"granitemoeshared_alone", "granitemoeshared", R"("num_local_experts":5)"},
      {"flex_olmo", "flex_olmo", R"("num_experts":5,"num_experts_per_tok":2)"},
      {"flex_olmo_normalized", "flex_olmo",
       R"("num_experts":5,"num_experts_per_tok":2,"norm_topk_prob":true)"},
      {"minimax_m2", "minimax_m2",
       R"("num_local_experts":5,"num_experts_per_tok":3,"head_dim":10,"rotary_dim":6)"},
      {"minimax_m2_all_turn", "minimax_m2",
       R"("num_local_experts":5,"num_experts_per_tok":3,"head_dim":10)"},
      {"glm_lite", "glm4_moe_lite",
       R"("q_lora_rank":7,"kv_lora_rank":5,"qk_nope_head_dim":3,"qk_rope_head_dim":4,"v_head_dim":5,)"
       R"("n_routed_experts":5,"num_experts_per_tok":3,"moe_intermediate_size":12)"},
      {"solar_open", "solar_open",
       R"("n_routed_experts":5,"num_experts_per_tok":3,"n_shared_experts":2,"head_dim":6,)"
       R"("moe_intermediate_size":12,"attention_bias":true)"},
      {"exaone_moe", "exaone_moe",
       R"("num_experts":5,"num_experts_per_tok":3,"num_shared_experts":2,"head_dim":6,)"
       R"("moe_intermediate_size":12,"sliding_window":3,)"
       R"("layer_types":["sliding_attention","full_attention"])"},
      {"exaone_moe_all_see", "exaone_moe",
       R"("num_experts":5,"num_experts_per_tok":3,"moe_intermediate_size":12,)"
       R"("mlp_layer_types":["sparse","sparse"],"layer_types":["full_attention","full_attention"])"},
      {"hy_v3", "hy_v3",
       R"("num_experts":5,"num_experts_per_tok":3,"num_shared_experts":2,"head_dim":6,)"
       R"("moe_intermediate_size":12)"},
      {"hunyuan_moe", "hunyuan_v1_moe", R"("num_experts":5,"moe_topk":3,"head_dim":8)"},
      {"bert_first", "bert", R"("architectures":["BertModel"])"},
      {"bert_first_masked", "bert", R"("architectures":["BertForMaskedLM"])"},
      {"bert_first_pairs", "bert", R"("architectures":["BertForPreTraining"])"},
      {"roberta", "roberta", R"("architectures":["RobertaModel"],"type_vocab_size":1)"},
      {"roberta_masked", "xlm-roberta", R"("architectures":["XLMRobertaForMaskedLM"])"},
      {"distilbert", "distilbert",
       R"("architectures":["DistilBertForMaskedLM"],"dim":16,"n_heads":4,"n_layers":2,)"
       R"("hidden_dim":24)"},
      {"camembert", "camembert", R"("architectures":["CamembertForMaskedLM"])"},
      {"olmo", "olmo", R"("attention_bias":false)"},
  };
  const auto* const found = std::ranges::find(kOwn, name, &OwnConfig::name);
  return found == std::end(kOwn) ? nullptr : found;
}

// "bert_of_labels", say: with the head of a task.
inline ModelConfig config_named(const std::string& name) {
  if (const std::size_t at = name.find("_of_"); at != name.npos) {
    const bool choices = name.ends_with("_choices");
    ModelConfig c = config_named(name.substr(0, at));
    c.task_head = c.family != ModelFamily::bert ? kScoreHead
                  : choices                     ? kMultichoiceHead
                                                : kClassificationHead;
    c.num_labels = choices ? 1 : 3;
    if (c.residual_of_norm) c.bert_pooler = true;
    if (name.ends_with("_labels")) c.label_names = "no\nperhaps\nyes";
    c.complete();
    return c;
  }
  ModelConfig c = name == "gpt2" || name == "bert" ? tiny_gpt2() : tiny_llama();
  if (const OwnConfig* const own = own_config(name)) {
    const bool latent = name == "glm_lite" || name == "youtu";
    const int groups = latent ? 4 : 2;  // of latents there are as many as heads
    const std::string json =
        concat(R"({"model_type":")", own->type, R"(","num_hidden_layers":2,"hidden_size":16,)",
               R"("num_attention_heads":4,"num_key_value_heads":)", groups,
               R"(,"intermediate_size":24,"max_position_embeddings":8,)", own->json, "}");
    c = parse_hugging_face_config(json, "config.json").model;
  }
  if (name == "dots1_mha") c.num_query_groups = c.num_attention_heads;
  if (name == "olmo3_four") {
    c.num_layers = 4;
    c.window_attn_skip_freq = {1, 1, 1, 0};
  }
  if (name == "tied") c.untie_embeddings_and_output_weights = false;
  if (name == "mistral") c.window_size = "3,0";
  if (name == "qwen2") c.add_qkv_bias = true;
  if (name == "qwen3") {
    c.qk_layernorm = true;
    c.kv_channels = 8;
    c.window_size = "4,0";
    c.window_attn_skip_freq = {1, 0};
  }
  if (name == "scaled") {
    c.use_rope_scaling = true;
    c.rotary_base = 500000;
  }
  if (name == "stretched") c.rotary_interpolation = 2.5;
  if (name == "nemotron") {
    c.rotary_percent = 0.5;
    c.normalization = "LayerNorm";
    c.apply_layernorm_1p = c.squared_relu = true;
    c.swiglu = false;
  }
  if (name == "mixtral") {
    c.family = ModelFamily::mixtral;
    c.num_experts = 4;
    c.moe_router_topk = 3;
    c.moe_aux_loss_coeff = {0.25};
    c.window_size = "3,0";
  }
  if (name.starts_with("qwen3_moe")) {
    c.family = ModelFamily::mixtral;
    c.qk_layernorm = true;
    c.num_experts = 4;
    c.moe_router_topk = 2;
    c.moe_router_pre_softmax = name == "qwen3_moe_pre";
    c.moe_aux_loss_coeff = {0.25};
  }
  if (name == "qwen3_moe_dense") {
    c.family = ModelFamily::mixtral;
    c.num_experts = 3;
    c.moe_router_topk = 2;
    c.qk_layernorm = true;
    c.moe_layer_freq = "[0,1]";
    c.moe_ffn_hidden_size = 24;
  }
  if (name.starts_with("glm4_moe")) {
    c.family = ModelFamily::mixtral;
    c.num_experts = 4;
    c.moe_router_topk = 2;
    c.qk_layernorm = c.add_qkv_bias = c.moe_router_enable_expert_bias = true;
    c.rotary_percent = 0.5;
    c.moe_layer_freq = "[0,1]";
    c.moe_ffn_hidden_size = 24;
    c.moe_shared_expert_intermediate_size = 48;
    c.moe_router_score_function = "sigmoid";
    c.moe_router_num_groups = 2;
    c.moe_router_group_topk = 1;
    c.moe_router_topk_scaling_factor = 1.5;
  }
  if (name.starts_with("olmoe")) {
    c.family = ModelFamily::mixtral;
    c.qk_layernorm = c.qk_layernorm_whole = true;
    c.num_experts = 5;
    c.moe_router_topk = 2;
    c.moe_router_pre_softmax = name == "olmoe";
    c.moe_aux_loss_coeff = {0.25};
  }
  if (name == "gpt_oss") {
    c = tiny_gpt_oss();
    c.num_experts = 4;
    c.moe_aux_loss_coeff = {0.25};
  }
  if (name.starts_with("deepseek") || name == "kimi_k2") c = tiny_latent_experts();
  if (name == "deepseek_v2") {
    c.moe_layer_freq = "1";
    c.moe_shared_expert_intermediate_size = c.ffn();
  }
  if (name.starts_with("deepseek_v3") || name == "kimi_k2") {
    c.q_lora_rank = 7;
    c.moe_ffn_hidden_size = 24;
    c.moe_shared_expert_intermediate_size = 48;
    c.moe_router_pre_softmax = false;
    c.moe_router_score_function = "sigmoid";
    c.moe_router_enable_expert_bias = true;
    c.moe_router_topk_scaling_factor = 2.5;
    c.moe_router_group_score = "topsum";
    c.moe_router_group_topk = 1;
  }
  if (name == "deepseek_v2_lite") {
    c.moe_ffn_hidden_size = 24;
    c.moe_shared_expert_intermediate_size = 48;
    c.moe_router_num_groups = c.moe_router_group_topk = 0;
    c.moe_router_group_score = "topsum";
    c.mscale = c.mscale_all_dim = 0.707;
  }
  if (name == "kimi_k2") {
    c.hf_model_type = name;
    c.moe_router_num_groups = c.moe_router_group_topk = 0;
    c.yarn_beta_fast = 1;
  }
  if (name == "qwen2_moe") {
    c.family = ModelFamily::mixtral;
    c.add_qkv_bias = c.moe_router_pre_softmax = c.moe_shared_expert_gate = true;
    c.num_experts = 3;
    c.moe_router_topk = 2;
    c.moe_shared_expert_intermediate_size = 24;
  }
  if (name == "gemma" || name == "gemma2" || name == "gemma3_text") {
    c.swiglu = false;
    c.gated_gelu = c.apply_layernorm_1p = true;
    c.embedding_mult = 4;
    c.untie_embeddings_and_output_weights = false;
  }
  if (name == "gemma2" || name == "gemma3_text") {
    c.post_layernorm = true;
    c.window_size = "3,0";
    c.window_attn_skip_freq = {1, 0};
  }
  if (name == "gemma2") {
    c.attn_logit_softcapping = 2.5;
    c.final_logit_softcapping = 1.5;
  }
  if (name == "gemma3_text") {
    c.qk_layernorm = true;
    c.num_layers = 6;
    c.window_attn_skip_freq = {1, 1, 1, 1, 1, 0};
    c.rotary_base = 1000000;
    c.rotary_base_window = 10000;
    c.rotary_interpolation = 8;
  }
  if (name == "olmo2") {
    c.qk_layernorm = c.qk_layernorm_whole = c.post_layernorm = true;
    c.pre_layernorm = false;
  }
  if (name == "phi3") {
    c.rotary_percent = 0.5;
    c.window_size = "3,0";
  }
  if (name == "granite") {
    c.embedding_mult = 12;
    c.residual_mult = 0.22;
    c.logit_scale = 1.0 / 6;
    c.softmax_scale = 0.3;
  }
  if (name == "smollm3" || name == "cohere2") {
    c.num_layers = 4;
    c.no_rope_freq = {0, 0, 0, 1};
  }
  if (name.starts_with("cohere")) {
    c.normalization = "LayerNorm";
    c.norm_bias = c.untie_embeddings_and_output_weights = false;
    c.parallel_block = c.rotary_interleaved = true;
    c.logit_scale = 0.0625;
  }
  if (name == "cohere2") {
    c.window_size = "3,0";
    c.window_attn_skip_freq = {1, 1, 1, 0};
  }
  if (name == "bert") {
    c.family = ModelFamily::bert;
    c.bias_gelu_fusion = false;
  }
  if (name == "mamba") {
    c.family = ModelFamily::mamba;
    c.position_embedding_type = "none";
    c.swiglu = c.group_query_attention = false;
    c.ffn_hidden_size.reset();
    c.kv_channels = c.mamba_head_dim = 8;
    c.mamba_state_dim = 6;
    c.mamba_num_groups = 2;
    c.max_position_embeddings = 0x7fffffff;
  }
  if (name == "hybrid" || name == "hybrid_wide") {
    c.family = ModelFamily::mamba;
    c.position_embedding_type = "none";
    c.swiglu = false;
    c.squared_relu = true;
    c.num_layers = 5;
    c.hybrid_pattern = "M*-M*";
    c.mamba_num_heads = name == "hybrid_wide" ? 6 : 0;
    c.mamba_head_dim = 8;
    c.mamba_state_dim = 6;
    c.mamba_num_groups = 2;
  }
  if (name.starts_with("granitemoehybrid") || name.starts_with("hybrid_experts")) {
    c.family = ModelFamily::mamba;
    const bool experts = name != "granitemoehybrid_dense", granite = name.starts_with("granite");
    c.hybrid_pattern = granite ? experts ? "ME*E" : "*-M-" : "EM*-E";
    if (name.ends_with("_attention")) {  // no mixers, and what they would be
      c.hybrid_pattern = "*E*E";
      c.mamba_num_heads = 4;
    }
    c.num_layers = std::ssize(c.hybrid_pattern);
    c.position_embedding_type = experts ? "none" : "rope";
    c.mamba_head_dim = 8;
    c.mamba_state_dim = 6;
    c.mamba_num_groups = 2;
    if (experts) {
      c.num_experts = 4;
      c.moe_ffn_hidden_size = 12;
      c.moe_shared_expert_intermediate_size = 20;
      c.moe_router_topk = 2;
    }
    if (granite) {
      c.ffn_hidden_size = 20;
      c.embedding_mult = 12;
      c.residual_mult = 0.22;
      c.logit_scale = 0.125;
      c.softmax_scale = 0.3;
      c.moe_aux_loss_coeff = {experts ? 0.25 : 0};
    } else {
      c.swiglu = false;
      c.squared_relu = true;
      if (name == "hybrid_experts_latents") c.moe_latent_size = 10;
      c.moe_router_score_function = "sigmoid";
      c.moe_router_enable_expert_bias = true;
      c.moe_router_topk_scaling_factor = 2.5;
    }
  }
  if (name == "bamba") {
    c.family = ModelFamily::mamba;
    c.num_layers = 4;
    c.hybrid_pattern = "M-*-";
    c.rotary_percent = 0.5;
    c.mamba_head_dim = 8;
    c.mamba_state_dim = 6;
    c.mamba_num_groups = 2;
  }
  if (name.starts_with("t5")) {
    c.family = ModelFamily::t5;
    c.position_embedding_type = "relative";
    c.max_position_embeddings = 0x7fffffff;
    c.group_query_attention = c.swiglu = c.bias_gelu_fusion = false;
    c.num_layers = 3;
    c.encoder_num_layers = 2;
    c.relative_attention_num_buckets = 6;
    c.relative_attention_max_distance = 9;
    c.relu = c.scale_decoder_outputs = name == "t5";
    c.gated_gelu = c.untie_embeddings_and_output_weights = name == "t5_gated";
  }
  if (name.ends_with("_further")) c.mtp_num_layers = name.starts_with("glm") ? 1 : 2;
  c.vocab_size = 21;
  c.padded_vocab_size = 0;
  c.make_vocab_size_divisible_by = 8;
  c.complete();
  return c;
}

// Of float32 or bfloat16.
inline void fill_narrow(const HostTensor& tensor,
                        const std::function<double(std::int64_t)>& value) {
  if (tensor.view().dtype() == DType::f32) return fill_with(tensor, value);
  auto* const numbers = static_cast<Bf16*>(tensor.view().data());
  for (std::int64_t i = 0; i < tensor.view().numel(); ++i)
    numbers[i] = Bf16(static_cast<float>(value(i)));
}

// A folder of Hugging Face's with random weights, in the order of the table.
inline void write_hugging_face(const std::string& folder, const ModelConfig& config, DType dtype) {
  std::filesystem::create_directory(folder);
  const ParamTable table = model_rows(config);
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<unsigned> seeds;
  std::set<std::string> shifted;  // numbers less 1 of which are to be exact
  for (const Param& row : table.rows()) {
    const std::vector<ForeignName> names = hugging_face_names(config, row);
    for (const ForeignName& name : names)
      if (name.part == 0) {
        entries.push_back({name.name, dtype, hugging_face_shape(row, name, config)});
        seeds.push_back(static_cast<unsigned>(entries.size()));
        if (std::ranges::count(name.transform, Rearrange::Kind::shift, &Rearrange::kind) > 0)
          shifted.insert(name.name);
      }
    const unsigned seed = seeds.empty() ? 0 : seeds.back();
    for (const std::string& copy : hugging_face_copies(config, row)) {
      entries.push_back({copy, dtype, hugging_face_shape(row, names.front(), config)});
      seeds.push_back(seed);
    }
  }
  SafetensorsWriter writer(folder, entries, 1 << 30);
  for (std::size_t at = 0; at < entries.size(); ++at) {
    const auto& entry = entries[at];
    std::mt19937 engine(seeds[at]);
    const HostTensor tensor(dtype, entry.shape);
    auto* const bytes = static_cast<unsigned char*>(tensor.view().data());
    for (std::size_t i = 0; i < tensor.view().bytes(); ++i)
      bytes[i] = static_cast<unsigned char>(32 + engine() % 32);  // of any type: finite, normal
    if (shifted.contains(entry.name))
      fill_narrow(tensor, [&](std::int64_t) { return 0.5 + engine() % 192 / 128.0; });
    writer.write(entry.name, tensor);
  }
  writer.close();
  File file = File::create(folder + "/config.json");
  file.write(hugging_face_config(config, dtype, R"({"model_type":"none"})"));
}

class Convert : public testing::Test {
 protected:
  ConvertReport convert(const std::string& from, const std::string& to, const std::string& saver,
                        ConvertOptions options = {}) {
    options.load = scratch_.path(from);
    options.save = scratch_.path(to);
    options.saver = saver;
    options.complete();
    return convert_checkpoint(options, Log({.level = Log::Level::quiet}), [] {});
  }
  std::string error(const std::string& from, const std::string& to, const std::string& saver,
                    const ConvertOptions& options = {}) {
    return error_of([&] { convert(from, to, saver, options); });
  }
  std::string content(const std::string& path) { return read_file(scratch_.path(path)); }
  Scratch scratch_;
};

}  // namespace mt
