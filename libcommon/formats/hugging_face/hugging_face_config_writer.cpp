#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/delta_family.h"
#include "formats/hugging_face/dense_families.h"
#include "formats/hugging_face/latent_families.h"
#include "formats/hugging_face/layer_norm_families.h"
#include "formats/hugging_face/mamba_families.h"
#include "formats/hugging_face/typed_experts.h"
#include "formats/names/hugging_face.h"

namespace mt {

namespace {

// What its class is called with the head that it has, "LlamaForCausalLM" without a task's.
std::string architecture_of(std::string_view type, const ModelConfig& c) {
  const ConfigFamily* const family = find_config_family(type);
  const std::string name(family                       ? family->architecture
                         : is_layer_norm_family(type) ? layer_norm_architecture(type)
                         : is_post_norm_bert(type)    ? post_norm_bert_class(type)
                                                      : decoder_architecture(type));
  if (c.family == ModelFamily::vit && !c.is_tower()) return c.has_task_head() ? name : "ViTModel";
  if (is_post_norm_bert(type)) {
    const std::string begin(post_norm_bert_class(type));
    return begin + (c.task_head == kMultichoiceHead ? "ForMultipleChoice"
                    : c.has_task_head()             ? "ForSequenceClassification"
                    : c.bert_binary_head            ? "ForPreTraining"
                    : c.bert_lm_head                ? "ForMaskedLM"
                                                    : "Model");
  }
  if (!c.has_task_head()) return name;
  const std::size_t end = std::min(name.find("For"), name.find("LMHead"));
  return name.substr(0, end) +
         (c.task_head == kMultichoiceHead ? "ForMultipleChoice" : "ForSequenceClassification");
}

// A label without a name of its own is called as transformers calls it.
void write_labels(JsonWriter& json, const ModelConfig& c) {
  std::vector<std::string> names = c.labels();
  for (std::size_t i = c.named_labels(); i < names.size(); ++i) names[i] = concat("LABEL_", i);
  json.key("id2label").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.member(std::to_string(i), names[i]);
  json.end_object().key("label2id").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i)
    json.member(names[i], static_cast<std::int64_t>(i));
  json.end_object();
}

// Families of which a setting that none of them has shows once their config.json is read.
bool is_read_back(std::string_view type) {
  return type == "olmoe" || type == "gpt_oss" || is_delta_family(type) || is_dense_family(type) ||
         has_typed_experts(type) || is_layer_norm_family(type) || is_post_norm_bert(type);
}

std::string_view type_of(const ModelConfig& c) {
  if (c.moe_router_score_function == "sqrtsoftplus")
    refuse_setting("--moe-router-score-function sqrtsoftplus");
  if (c.has_quantiles()) refuse_setting("--moe-router-load-balancing-type quantile_balancing");
  if (c.moe_latent_size > 0 && c.family != ModelFamily::mamba) refuse_setting("--moe-latent-size");
  if (c.family == ModelFamily::t5) {
    check_t5(c);
    return "t5";
  }
  if (c.family == ModelFamily::bert) {
    if (c.residual_of_norm) {
      check_post_norm_bert(c);
      return post_norm_bert_type(c);
    }
    check_bert(c);
    return "megatron-bert";
  }
  if (c.family == ModelFamily::vit) {
    check_vit(c);
    return vit_type(c);
  }
  if (c.family == ModelFamily::llava) return llava_type(c);
  if (c.family == ModelFamily::mamba) {
    check_mamba(c);
    return mamba_type(c);
  }
  if (c.family == ModelFamily::retro) refuse_setting("--retro-add-retriever");
  if (c.family == ModelFamily::biencoder) refuse_setting("two towers");
  if (c.family == ModelFamily::mixtral && !c.is_gated())
    refuse_setting("--num-experts without --swiglu or --quick-geglu");
  if (const std::string_view type = hugging_face_type(c); is_read_back(type)) return type;
  if (const char* const flag = c.later_setting()) refuse_setting(flag);
  if (c.position_embedding_type != "learned_absolute") return decoder_type(c);
  check_gpt2(c);
  return "gpt2";
}

// A member that a setting of ours stands for in these families alone.
struct OwnMember {
  std::string_view name, types[5];
};
constexpr OwnMember kOwnMembers[] = {
    {"residual_dropout", {"starcoder2"}},
    {"embd_pdrop", {"gpt2", "gptj", "codegen", "gpt_bigcode", "phi"}},
    {"embedding_dropout", {"starcoder2"}},
    {"dropout", {"opt", "distilbert"}},
    {"bias", {"falcon", "internlm2", "internlm3"}},
    {"activation", {"falcon", "distilbert"}},
    {"dim", {"distilbert"}},
    {"qk_layernorm", {"phi", "persimmon", "stablelm"}},
    {"num_layers", {"exaone", "gpt_neo"}},
    {"attention_types", {"gpt_neo"}},
    {"attention_layers", {"gpt_neo"}},
    {"window_size", {"gpt_neo"}},
    {"resid_dropout", {"gpt_neo"}},
    {"embed_dropout", {"gpt_neo"}},
    {"apply_residual_connection_post_layernorm", {"bloom"}},
    {"n_heads", {"mpt", "distilbert"}},
    {"n_layers", {"mpt", "distilbert"}},
    {"max_seq_len", {"mpt"}},
    {"seq_length", {"bloom"}},
    {"no_bias", {"mpt"}},
    {"attn_config", {"mpt"}},
    {"scale_emb", {"minicpm"}},
    {"scale_depth", {"minicpm"}},
    {"dim_model_base", {"minicpm"}},
    {"scale_embedding", {"biogpt"}},
    {"use_post_norm", {"hyperclovax"}},
    {"layer_rope_theta", {"granite_swa"}},
    {"use_routing_bias", {"minimax_m2"}},
    {"mlp_layer_types", {"glm4_moe_lite", "exaone_moe", "hy_v3"}},
    {"num_shared_experts", {"exaone_moe", "hy_v3"}},
    {"router_scaling_factor", {"hy_v3"}},
    {"moe_topk", {"hunyuan_v1_moe"}},
    {"num_shared_expert", {"hunyuan_v1_moe"}},
    {"use_mixed_mlp_moe", {"hunyuan_v1_moe"}}};

// Members of a config.json that settings of ours stand for, in any generation of transformers.
bool is_ours(std::string_view name, std::string_view type) {
  static constexpr std::string_view kOurs[] = {"architectures",
                                               "model_type",
                                               "torch_dtype",
                                               "dtype",
                                               "vocab_size",
                                               "tie_word_embeddings",
                                               "initializer_range",
                                               "n_layer",
                                               "n_embd",
                                               "n_head",
                                               "n_inner",
                                               "n_positions",
                                               "layer_norm_epsilon",
                                               "attn_pdrop",
                                               "resid_pdrop",
                                               "activation_function",
                                               "num_hidden_layers",
                                               "hidden_size",
                                               "num_attention_heads",
                                               "num_key_value_heads",
                                               "head_dim",
                                               "intermediate_size",
                                               "rms_norm_eps",
                                               "max_position_embeddings",
                                               "norm_eps",
                                               "hidden_act",
                                               "attention_dropout",
                                               "attention_bias",
                                               "mlp_bias",
                                               "rope_theta",
                                               "rope_scaling",
                                               "rope_parameters",
                                               "partial_rotary_factor",
                                               "sliding_window",
                                               "use_sliding_window",
                                               "layer_types",
                                               "num_local_experts",
                                               "num_experts",
                                               "moe_intermediate_size",
                                               "norm_topk_prob",
                                               "decoder_sparse_step",
                                               "mlp_only_layers",
                                               "shared_expert_intermediate_size",
                                               "shared_intermediate_size",
                                               "moe_shared_expert_intermediate_size",
                                               "moe_latent_size",
                                               "n_routed_experts",
                                               "n_shared_experts",
                                               "first_k_dense_replace",
                                               "routed_scaling_factor",
                                               "n_group",
                                               "topk_group",
                                               "use_qk_norm",
                                               "num_nextn_predict_layers",
                                               "num_mtp_layers",
                                               "qkv_bias",
                                               "full_attention_interval",
                                               "linear_conv_kernel_dim",
                                               "linear_key_head_dim",
                                               "linear_value_head_dim",
                                               "linear_num_key_heads",
                                               "linear_num_value_heads",
                                               "num_experts_per_tok",
                                               "router_aux_loss_coef",
                                               "type_vocab_size",
                                               "layer_norm_eps",
                                               "attention_probs_dropout_prob",
                                               "hidden_dropout_prob",
                                               "num_heads",
                                               "state_size",
                                               "n_groups",
                                               "expand",
                                               "conv_kernel",
                                               "use_bias",
                                               "use_conv_bias",
                                               "hybrid_override_pattern",
                                               "layers_block_type",
                                               "attention_head_dim",
                                               "mlp_hidden_act",
                                               "mamba_num_heads",
                                               "mamba_head_dim",
                                               "mamba_hidden_act",
                                               "mamba_proj_bias",
                                               "ssm_state_size",
                                               "attn_layer_indices",
                                               "mamba_n_heads",
                                               "mamba_d_head",
                                               "mamba_d_state",
                                               "mamba_n_groups",
                                               "mamba_expand",
                                               "mamba_d_conv",
                                               "mamba_conv_bias",
                                               "hidden_dropout",
                                               "num_layers",
                                               "num_decoder_layers",
                                               "d_model",
                                               "d_kv",
                                               "d_ff",
                                               "relative_attention_num_buckets",
                                               "relative_attention_max_distance",
                                               "feed_forward_proj",
                                               "is_gated_act",
                                               "dense_act_fn",
                                               "dropout_rate",
                                               "is_encoder_decoder",
                                               "scale_decoder_outputs",
                                               "n_layers",
                                               "n_heads",
                                               "hidden_dim",
                                               "sinusoidal_pos_embds",
                                               "rotary_pct",
                                               "rotary_emb_base",
                                               "rotary_dim",
                                               "use_parallel_residual",
                                               "attention_out_bias",
                                               "alibi",
                                               "new_decoder_architecture",
                                               "multi_query",
                                               "parallel_attn",
                                               "num_ln_in_parallel_attn",
                                               "num_kv_heads",
                                               "ffn_hidden_size",
                                               "use_qkv_bias",
                                               "norm_epsilon",
                                               "clip_qkv",
                                               "ffn_dim",
                                               "init_std",
                                               "word_embed_proj_dim",
                                               "do_layer_norm_before",
                                               "_remove_final_layer_norm",
                                               "enable_bias",
                                               "layer_norm_elementwise_affine",
                                               "max_window_layers",
                                               "hidden_activation",
                                               "query_pre_attn_scalar",
                                               "attn_logit_softcapping",
                                               "final_logit_softcapping",
                                               "rope_local_base_freq",
                                               "sliding_window_pattern",
                                               "_sliding_window_pattern",
                                               "use_bidirectional_attention",
                                               "logit_scale",
                                               "use_qk_norm",
                                               "embedding_multiplier",
                                               "residual_multiplier",
                                               "logits_scaling",
                                               "attention_multiplier",
                                               "no_rope_layers",
                                               "no_rope_layer_interval",
                                               "swiglu_limit",
                                               "swiglu_alpha",
                                               "quantization_config",
                                               "q_lora_rank",
                                               "kv_lora_rank",
                                               "qk_nope_head_dim",
                                               "qk_rope_head_dim",
                                               "qk_head_dim",
                                               "v_head_dim",
                                               "rope_interleave",
                                               "topk_method",
                                               "scoring_func",
                                               "moe_layer_freq",
                                               "aux_loss_alpha",
                                               "seq_aux",
                                               "image_size",
                                               "patch_size",
                                               "num_channels",
                                               "vision_use_head",
                                               "norm_type",
                                               "use_mean_pooling",
                                               "mlp_ratio",
                                               "use_swiglu_ffn",
                                               "max_img_size",
                                               "num_cls_tokens",
                                               "num_registers",
                                               "norm_mean",
                                               "norm_std",
                                               "patch_dim",
                                               "video_patch_dim",
                                               "vision_config",
                                               "text_config",
                                               "image_token_index",
                                               "image_token_id",
                                               "image_seq_length",
                                               "downsample_ratio",
                                               "vision_feature_layer",
                                               "vision_feature_select_strategy",
                                               "projector_hidden_act",
                                               "multimodal_projector_bias",
                                               "id2label",
                                               "label2id"};
  return std::ranges::find(kOurs, name) != std::end(kOurs) ||
         std::ranges::any_of(kOwnMembers, [&](const OwnMember& member) {
           return member.name == name &&
                  std::ranges::find(member.types, type) != std::end(member.types);
         });
}

// These families have many settings, and most of what those may be has no model there.
void check_reads_back(const ModelConfig& model, const std::string& json, std::string_view type) {
  const HuggingFaceConfig parsed = parse_hugging_face_config(json, "config.json");
  ModelConfig back = parsed.model;
  back.mtp_num_layers = parsed.further.value_or(0);
  back.padded_vocab_size = model.padded_vocab_size;
  back.bert_pooler = model.bert_pooler;  // which tensors say
  back.complete();
  if (const char* const setting = differing_setting(model, back))
    fail(Exit::bad_config, setting, ": no ", type, " of transformers has that");
}

// Llama's mathematics under Mistral's name, where that is what the model was called.
std::string_view type_like(const ModelConfig& c, std::string_view original_type) {
  const std::string_view type = type_of(c);
  return type == "llama" && original_type == "mistral" && !c.add_bias_linear ? "mistral" : type;
}

// The models that a LLaVA is made of, with what was once read of each.
void write_parts(JsonWriter& json, const ModelConfig& c, DType dtype, const JsonObject& before,
                 const SpecialTokens* special) {
  const auto write = [&](const char* name, const ModelConfig& part, const SpecialTokens* tokens) {
    const std::string original = before.has(name) ? before.object(name).json() : std::string();
    std::string text = hugging_face_config(part, dtype, original, tokens);
    text.pop_back();  // the end of the line
    json.key(name).raw(text);
  };
  write("text_config", language_config(c), special);
  write("vision_config", tower_config(c), nullptr);
}

// Whether the class takes a row behind the end of a vocabulary of this size for padding where
// nothing is said: transformers 5 then makes no model at all.
bool pads_beyond(std::string_view type, std::int64_t vocab_size) {
  return (type == "phi3" && vocab_size <= 32000) || (type == "smollm3" && vocab_size <= 128004) ||
         ((type == "glm" || type == "glm4") && vocab_size <= 151329) ||
         (type == "flex_olmo" && vocab_size <= 100277);
}

}  // namespace

void refuse_setting(const char* what) {
  fail(Exit::bad_config, what, ": no model of transformers has that");
}

std::string hugging_face_config(const ModelConfig& model, DType dtype, const std::string& original,
                                const SpecialTokens* special, const std::string& quantization) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string known = original.empty() ? "{}" : without_python_numbers(original);
  if (const auto error = parse_json(parser, known).get(root))
    fail_json(known, "config.json", error);
  const JsonObject before(root, "config.json");
  const std::string_view before_type = before.text_or("model_type", "");
  const std::string_view type = type_like(model, before_type);
  if (model.mtp_num_layers > 0 && !may_predict_further(type))
    fail(Exit::bad_config, "--mtp-num-layers: no ", type,
         " of transformers has layers that predict further tokens; --mtp-num-layers 0 leaves them "
         "behind");
  JsonWriter json(JsonWriter::Wholes::pointed);  // classes of transformers 5 know 30 from 30.0
  json.begin_object()
      .key("architectures")
      .begin_array()
      .value(architecture_of(type, model))
      .end_array();
  json.member("model_type", type);
  if (const ConfigFamily* const family = find_config_family(type))
    family->write(json, model);
  else if (is_layer_norm_family(type))
    write_layer_norm_family(json, model, type, type == before_type ? &before : nullptr);
  else if (is_post_norm_bert(type))
    write_post_norm_bert(json, model);
  else
    write_decoder(json, model, type,
                  type == before_type ? positions_of(before, original, model) : std::nullopt);
  if (type == "gpt2")
    write_embedding_dropout(json, model, "embd_pdrop", type == before_type ? &before : nullptr,
                            kGpt2Dropout);
  if (model.has_task_head() && model.task_head != kMultichoiceHead) write_labels(json, model);
  if (model.family == ModelFamily::llava) write_parts(json, model, dtype, before, special);
  if (model.family != ModelFamily::vit && model.family != ModelFamily::llava)
    json.member("vocab_size", model.vocab_size);
  if (model.family != ModelFamily::vit)
    json.member("tie_word_embeddings", !model.untie_embeddings_and_output_weights);
  if (model.family != ModelFamily::llava) json.member("initializer_range", model.init_method_std);
  json.member("torch_dtype", name_of(dtype));
  if (!quantization.empty()) json.key("quantization_config").raw(quantization);
  if (type == before_type)
    for (const std::string_view name : before.names())
      if (!is_ours(name, type) &&
          !(type == "granitemoehybrid" && name == "position_embedding_type"))
        json.key(name).raw(simdjson::minify(before.member(name)));
  const auto names = before.names();
  const auto is_said = [&](std::string_view name) {
    return type == before_type && std::ranges::find(names, name) != names.end();
  };
  // What is not said has the default of the class, which is another tokenizer's.
  bool padding_is_said = is_said("pad_token_id");
  if (special != nullptr && !is_said("eos_token_id") && model.family != ModelFamily::llava) {
    for (const auto& [name, id] : {std::pair("bos_token_id", special->bos),
                                   {"eos_token_id", special->eos},
                                   {"pad_token_id", special->pad}}) {
      if (is_said(name)) continue;
      json.key(name);
      if (id >= 0)
        json.value(id);
      else
        json.null();
    }
    padding_is_said = true;
  }
  // By its padding transformers finds a text's last token, which a score is of.
  if (special != nullptr && model.task_head == kScoreHead && !padding_is_said) {
    json.member("pad_token_id", special->pad >= 0 ? special->pad : special->eos);
    padding_is_said = true;
  }
  if (!padding_is_said && pads_beyond(type, model.vocab_size)) {
    json.key("pad_token_id");
    if (special != nullptr && special->pad >= 0)
      json.value(special->pad);
    else
      json.null();
  }
  // It goes before the scaling's own.
  if (type == "phi3" && !is_said("original_max_position_embeddings"))
    json.member("original_max_position_embeddings", model.max_position_embeddings);
  std::string text = json.end_object().text() + "\n";
  if (is_read_back(type) || is_latent_family(type)) check_reads_back(model, text, type);
  return text;
}

}  // namespace mt
