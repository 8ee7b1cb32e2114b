#include "formats/names/hugging_face.h"

#include <algorithm>
#include <span>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/mamba_families.h"
#include "formats/names/hugging_face_delta.h"
#include "formats/names/hugging_face_encoders.h"
#include "formats/names/hugging_face_vision.h"
#include "model/config/model_config.h"
#include "model/families/llava.h"
#include "model/keys.h"

namespace mt {
namespace {

using enum PartOfRow;
using Names = std::vector<ForeignName>;

constexpr ModuleName kGpt2[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"embedding.position_embeddings", "transformer.wpe"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.c_attn", by_kind},
    {"self_attention.linear_proj", "attn.c_proj"},
    {"pre_mlp_layernorm", "ln_2"},
    {"mlp.linear_fc1", "mlp.c_fc", ungated},
    {"mlp.linear_fc2", "mlp.c_proj"},
};

constexpr ModuleName kLlama[] = {
    {"embedding.word_embeddings", "model.embed_tokens"},
    {"decoder.final_layernorm", "model.norm"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "input_layernorm"},
    {"self_attention.linear_qkv", "self_attn.q_proj", queries},
    {"self_attention.linear_qkv", "self_attn.k_proj", keys},
    {"self_attention.linear_qkv", "self_attn.v_proj", values},
    {"self_attention.q_layernorm", "self_attn.q_norm"},
    {"self_attention.k_layernorm", "self_attn.k_norm"},
    {"self_attention.linear_proj", "self_attn.o_proj"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc1", "mlp.up_proj", ungated},
    {"mlp.linear_fc1", "mlp.gate_proj", gate},
    {"mlp.linear_fc1", "mlp.up_proj", up},
    {"mlp.linear_fc2", "mlp.down_proj"},
};

// Where branches have norms behind them.
constexpr ModuleName kPostNorms[] = {
    {"self_attention.linear_proj.post_layernorm", "post_attention_layernorm"},
    {"pre_mlp_layernorm", "pre_feedforward_layernorm"},
    {"mlp.linear_fc2.post_layernorm", "post_feedforward_layernorm"},
    {"mlp.post_layernorm", "post_feedforward_layernorm"},
};

constexpr ModuleName kPhi3[] = {
    {"self_attention.linear_qkv", "self_attn.qkv_proj", by_kind},
    {"mlp.linear_fc1", "mlp.gate_up_proj"},
};

constexpr ModuleName kGlm[] = {{"mlp.linear_fc1", "mlp.gate_up_proj"}};
constexpr ModuleName kGlm4[] = {
    {"mlp.linear_fc1", "mlp.gate_up_proj"},
    {"self_attention.linear_proj.post_layernorm", "post_self_attn_layernorm"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc2.post_layernorm", "post_mlp_layernorm"},
};

constexpr ModuleName kGraniteRouter[] = {
    {"mlp.router", "block_sparse_moe.router.layer"},
    {"mlp.shared_experts.linear_fc1", "shared_mlp.input_linear"},
    {"mlp.shared_experts.linear_fc2", "shared_mlp.output_linear"},
};

constexpr ModuleName kMixtralRouter[] = {{"mlp.router", "block_sparse_moe.gate"}};

constexpr ModuleName kMixtralExpert[] = {
    {"experts.linear_fc1", "w1", gate},
    {"experts.linear_fc1", "w3", up},
    {"experts.linear_fc2", "w2"},
};

constexpr ModuleName kNeox[] = {
    {"embedding.word_embeddings", "gpt_neox.embed_in"},
    {"decoder.final_layernorm", "gpt_neox.final_layer_norm"},
    {"output_layer", "embed_out"},
    {"score", "score"},
    {"input_layernorm", "input_layernorm"},
    {"self_attention.linear_qkv", "attention.query_key_value"},
    {"self_attention.linear_proj", "attention.dense"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc1", "mlp.dense_h_to_4h"},
    {"mlp.linear_fc2", "mlp.dense_4h_to_h"},
};

constexpr ModuleName kGptJ[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.q_proj", queries},
    {"self_attention.linear_qkv", "attn.k_proj", keys},
    {"self_attention.linear_qkv", "attn.v_proj", values},
    {"self_attention.linear_proj", "attn.out_proj"},
    {"mlp.linear_fc1", "mlp.fc_in"},
    {"mlp.linear_fc2", "mlp.fc_out"},
};

constexpr ModuleName kCodeGen[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.qkv_proj", of_four},
    {"self_attention.linear_proj", "attn.out_proj"},
    {"mlp.linear_fc1", "mlp.fc_in"},
    {"mlp.linear_fc2", "mlp.fc_out"},
};

// Its projections are not transposed, as a GPT-2's are.
constexpr ModuleName kGptBigCode[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"embedding.position_embeddings", "transformer.wpe"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.c_attn"},
    {"self_attention.linear_proj", "attn.c_proj"},
    {"pre_mlp_layernorm", "ln_2"},
    {"mlp.linear_fc1", "mlp.c_fc"},
    {"mlp.linear_fc2", "mlp.c_proj"},
};

constexpr ModuleName kGptNeo[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"embedding.position_embeddings", "transformer.wpe"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.attention.q_proj", queries},
    {"self_attention.linear_qkv", "attn.attention.k_proj", keys},
    {"self_attention.linear_qkv", "attn.attention.v_proj", values},
    {"self_attention.linear_proj", "attn.attention.out_proj"},
    {"pre_mlp_layernorm", "ln_2"},
    {"mlp.linear_fc1", "mlp.c_fc"},
    {"mlp.linear_fc2", "mlp.c_proj"},
};

constexpr ModuleName kMpt[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"decoder.final_layernorm", "transformer.norm_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "norm_1"},
    {"self_attention.linear_qkv", "attn.Wqkv", by_kind},
    {"self_attention.linear_proj", "attn.out_proj"},
    {"pre_mlp_layernorm", "norm_2"},
    {"mlp.linear_fc1", "ffn.up_proj"},
    {"mlp.linear_fc2", "ffn.down_proj"},
};

// Of BLOOM, too.
constexpr ModuleName kFalcon[] = {
    {"embedding.word_embeddings", "transformer.word_embeddings"},
    {"embedding.layernorm", "transformer.word_embeddings_layernorm"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "input_layernorm"},
    {"self_attention.linear_qkv", "self_attention.query_key_value"},
    {"self_attention.linear_proj", "self_attention.dense"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc1", "mlp.dense_h_to_4h"},
    {"mlp.linear_fc2", "mlp.dense_4h_to_h"},
};
// Where attention and MLP have a norm each.
constexpr ModuleName kFalconNorms[] = {
    {"input_layernorm", "ln_attn"},
    {"pre_mlp_layernorm", "ln_mlp"},
};

constexpr ModuleName kPhi[] = {
    {"self_attention.q_layernorm", "self_attn.q_layernorm"},
    {"self_attention.k_layernorm", "self_attn.k_layernorm"},
    {"decoder.final_layernorm", "model.final_layernorm"},
    {"self_attention.linear_proj", "self_attn.dense"},
    {"mlp.linear_fc1", "mlp.fc1"},
    {"mlp.linear_fc2", "mlp.fc2"},
};

constexpr ModuleName kStarcoder2[] = {
    {"mlp.linear_fc1", "mlp.c_fc"},
    {"mlp.linear_fc2", "mlp.c_proj"},
};

constexpr ModuleName kOpt[] = {
    {"embedding.word_embeddings", "model.decoder.embed_tokens"},
    {"embedding.position_embeddings", "model.decoder.embed_positions"},
    {"decoder.final_layernorm", "model.decoder.final_layer_norm"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "self_attn_layer_norm"},
    {"self_attention.linear_qkv", "self_attn.q_proj", queries},
    {"self_attention.linear_qkv", "self_attn.k_proj", keys},
    {"self_attention.linear_qkv", "self_attn.v_proj", values},
    {"self_attention.linear_proj", "self_attn.out_proj"},
    {"pre_mlp_layernorm", "final_layer_norm"},
    {"mlp.linear_fc1", "fc1"},
    {"mlp.linear_fc2", "fc2"},
};

constexpr ModuleName kBioGpt[] = {
    {"embedding.word_embeddings", "biogpt.embed_tokens"},
    {"embedding.position_embeddings", "biogpt.embed_positions"},
    {"decoder.final_layernorm", "biogpt.layer_norm"},
    {"output_layer", "output_projection"},
    {"score", "score"},
    {"input_layernorm", "self_attn_layer_norm"},
    {"self_attention.linear_qkv", "self_attn.q_proj", queries},
    {"self_attention.linear_qkv", "self_attn.k_proj", keys},
    {"self_attention.linear_qkv", "self_attn.v_proj", values},
    {"self_attention.linear_proj", "self_attn.out_proj"},
    {"pre_mlp_layernorm", "final_layer_norm"},
    {"mlp.linear_fc1", "fc1"},
    {"mlp.linear_fc2", "fc2"},
};

constexpr ModuleName kPersimmon[] = {
    {"decoder.final_layernorm", "model.final_layernorm"},
    {"self_attention.linear_qkv", "self_attn.query_key_value"},
    {"self_attention.q_layernorm", "self_attn.q_layernorm"},
    {"self_attention.k_layernorm", "self_attn.k_layernorm"},
    {"self_attention.linear_proj", "self_attn.dense"},
    {"mlp.linear_fc1", "mlp.dense_h_to_4h"},
    {"mlp.linear_fc2", "mlp.dense_4h_to_h"},
};

constexpr ModuleName kVaultGemma[] = {{"pre_mlp_layernorm", "pre_feedforward_layernorm"}};

constexpr ModuleName kExaone[] = {
    {"embedding.word_embeddings", "transformer.wte"},
    {"decoder.final_layernorm", "transformer.ln_f"},
    {"output_layer", "lm_head"},
    {"score", "score"},
    {"input_layernorm", "ln_1"},
    {"self_attention.linear_qkv", "attn.attention.q_proj", queries},
    {"self_attention.linear_qkv", "attn.attention.k_proj", keys},
    {"self_attention.linear_qkv", "attn.attention.v_proj", values},
    {"self_attention.linear_proj", "attn.attention.out_proj"},
    {"pre_mlp_layernorm", "ln_2"},
    {"mlp.linear_fc1", "mlp.c_fc_0", gate},
    {"mlp.linear_fc1", "mlp.c_fc_1", up},
    {"mlp.linear_fc2", "mlp.c_proj"},
};

constexpr ModuleName kInternLm2[] = {
    {"embedding.word_embeddings", "model.tok_embeddings"},
    {"output_layer", "output"},
    {"input_layernorm", "attention_norm"},
    {"self_attention.linear_qkv", "attention.wqkv"},
    {"self_attention.linear_proj", "attention.wo"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"mlp.linear_fc1", "feed_forward.w1", gate},
    {"mlp.linear_fc1", "feed_forward.w3", up},
    {"mlp.linear_fc2", "feed_forward.w2"},
};

constexpr ModuleName kHunyuan[] = {
    {"self_attention.q_layernorm", "self_attn.query_layernorm"},
    {"self_attention.k_layernorm", "self_attn.key_layernorm"},
};

constexpr ModuleName kHunyuanExperts[] = {
    {"self_attention.q_layernorm", "self_attn.query_layernorm"},
    {"self_attention.k_layernorm", "self_attn.key_layernorm"},
    {"mlp.router", "mlp.gate.wg"},
    {"mlp.shared_experts.linear_fc1", "mlp.shared_mlp.gate_proj", gate},
    {"mlp.shared_experts.linear_fc1", "mlp.shared_mlp.up_proj", up},
    {"mlp.shared_experts.linear_fc2", "mlp.shared_mlp.down_proj"},
};

constexpr ModuleName kHy3[] = {
    {"mlp.router", "mlp.router.gate"},
    {"mlp.shared_experts.linear_fc1", "mlp.shared_mlp.gate_proj", gate},
    {"mlp.shared_experts.linear_fc1", "mlp.shared_mlp.up_proj", up},
    {"mlp.shared_experts.linear_fc2", "mlp.shared_mlp.down_proj"},
};

constexpr ModuleName kApertus[] = {
    {"input_layernorm", "attention_layernorm"},
    {"pre_mlp_layernorm", "feedforward_layernorm"},
};

constexpr ModuleName kNanoChat[] = {
    {"mlp.linear_fc1", "mlp.fc1"},
    {"mlp.linear_fc2", "mlp.fc2"},
};

constexpr ModuleName kHyperClovaX[] = {
    {"self_attention.linear_proj.post_layernorm", "post_norm1"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc2.post_layernorm", "post_norm2"},
};

// What decoders call modules otherwise than a Llama, which those of the same layers' names are but
// for these.
struct DecoderNames {
  std::string_view type;
  const char* layers;
  std::span<const ModuleName> names;
};
constexpr const char* kLlamaLayers = "model.layers.";
constexpr DecoderNames kDecoderNames[] = {
    {"phi3", kLlamaLayers, kPhi3},
    {"phi", kLlamaLayers, kPhi},
    {"glm", kLlamaLayers, kGlm},
    {"glm4", kLlamaLayers, kGlm4},
    {"granitemoe", kLlamaLayers, kGraniteRouter},
    {"granitemoeshared", kLlamaLayers, kGraniteRouter},
    {"minimax_m2", kLlamaLayers, kMixtralRouter},
    {"hunyuan_v1_moe", kLlamaLayers, kHunyuanExperts},
    {"hy_v3", kLlamaLayers, kHy3},
    {"starcoder2", kLlamaLayers, kStarcoder2},
    {"gpt_neox", "gpt_neox.layers.", kNeox},
    {"gptj", "transformer.h.", kGptJ},
    {"falcon", "transformer.h.", kFalcon},
    {"opt", "model.decoder.layers.", kOpt},
    {"codegen", "transformer.h.", kCodeGen},
    {"gpt_bigcode", "transformer.h.", kGptBigCode},
    {"biogpt", "biogpt.layers.", kBioGpt},
    {"gpt_neo", "transformer.h.", kGptNeo},
    {"bloom", "transformer.h.", kFalcon},
    {"mpt", "transformer.blocks.", kMpt},
    {"hunyuan_v1_dense", kLlamaLayers, kHunyuan},
    {"persimmon", kLlamaLayers, kPersimmon},
    {"vaultgemma", kLlamaLayers, kVaultGemma},
    {"exaone", "transformer.h.", kExaone},
    {"internlm2", kLlamaLayers, kInternLm2},
    {"hyperclovax", kLlamaLayers, kHyperClovaX},
    {"apertus", kLlamaLayers, kApertus},
    {"nanochat", kLlamaLayers, kNanoChat},
};

// What latent attention has instead, as DeepSeek names it.
constexpr ModuleName kLatent[] = {
    {"self_attention.linear_q_proj", "self_attn.q_proj"},
    {"self_attention.linear_q_down_proj", "self_attn.q_a_proj"},
    {"self_attention.q_layernorm", "self_attn.q_a_layernorm"},
    {"self_attention.linear_q_up_proj", "self_attn.q_b_proj"},
    {"self_attention.linear_kv_down_proj", "self_attn.kv_a_proj_with_mqa"},
    {"self_attention.kv_layernorm", "self_attn.kv_a_layernorm"},
    {"self_attention.linear_kv_up_proj", "self_attn.kv_b_proj"},
};

// Of a layer that predicts a further token, beside what every layer has.
constexpr ModuleName kFurther[] = {
    {"enorm", "enorm"},
    {"hnorm", "hnorm"},
    {"eh_proj", "eh_proj"},
    {"final_layernorm", "shared_head.norm"},
};

constexpr ModuleName kQwenRouter[] = {{"mlp.router", "mlp.gate"}};

// Of Qwen's one shared expert and of GLM's several.
constexpr ModuleName kShared[] = {
    {"mlp.shared_experts.linear_fc1", "gate_proj", gate},
    {"mlp.shared_experts.linear_fc1", "up_proj", up},
    {"mlp.shared_experts.linear_fc2", "down_proj"},
};

constexpr ModuleName kQwenExpert[] = {
    {"experts.linear_fc1", "gate_proj", gate},
    {"experts.linear_fc1", "up_proj", up},
    {"experts.linear_fc2", "down_proj"},
};

// A tensor has all experts of a layer, of which each is transposed, a gate's column before each
// other.
Names gpt_oss_experts(const Param& row, const std::string& layer) {
  const bool first = row.place.module == "linear_fc1", bias = row.place.param == "bias";
  ForeignName name{
      concat(layer, "mlp.experts.", first ? "gate_up_proj" : "down_proj", bias ? "_bias" : "")};
  name.part = *row.place.expert;
  name.parts = row.experts;
  if (first) name.transform.push_back(exchange(2, row.shape[0] / 2));
  if (!bias) name.transform.push_back(transpose());
  return {name};
}

constexpr ModuleName kNemotronH[] = {
    {"embedding.word_embeddings", "backbone.embeddings"},
    {"decoder.final_norm", "backbone.norm_f"},
    {"output_layer", "lm_head"},
    {"mixer.in_proj", "mixer.in_proj"},
    {"mixer.conv1d", "mixer.conv1d"},
    {"mixer.norm", "mixer.norm"},
    {"mixer.out_proj", "mixer.out_proj"},
    {"input_layernorm", "norm"},
    {"self_attention.linear_qkv", "mixer.q_proj", queries},
    {"self_attention.linear_qkv", "mixer.k_proj", keys},
    {"self_attention.linear_qkv", "mixer.v_proj", values},
    {"self_attention.q_layernorm", "mixer.q_norm"},
    {"self_attention.k_layernorm", "mixer.k_norm"},
    {"self_attention.linear_proj", "mixer.o_proj"},
    {"pre_mlp_layernorm", "norm"},
    {"mlp.fc1_latent_proj", "mixer.fc1_latent_proj"},
    {"mlp.fc2_latent_proj", "mixer.fc2_latent_proj"},
    {"mlp.linear_fc1", "mixer.up_proj", ungated},
    {"mlp.linear_fc1", "mixer.gate_proj", gate},
    {"mlp.linear_fc1", "mixer.up_proj", up},
    {"mlp.linear_fc2", "mixer.down_proj"},
};

constexpr ModuleName kNemotronExpert[] = {
    {"experts.linear_fc1", "up_proj", ungated},
    {"experts.linear_fc2", "down_proj"},
};
constexpr ModuleName kNemotronShared[] = {
    {"mlp.shared_experts.linear_fc1", "up_proj", ungated},
    {"mlp.shared_experts.linear_fc2", "down_proj"},
};

// What Bamba and Granite 4 have in common.
constexpr ModuleName kMambaDecoder[] = {
    {"embedding.word_embeddings", "model.embed_tokens"},
    {"output_layer", "lm_head"},
    {"mixer.in_proj", "mamba.in_proj"},
    {"mixer.conv1d", "mamba.conv1d"},
    {"mixer.norm", "mamba.norm"},
    {"mixer.out_proj", "mamba.out_proj"},
    {"input_layernorm", "input_layernorm"},
    {"self_attention.linear_qkv", "self_attn.q_proj", queries},
    {"self_attention.linear_qkv", "self_attn.k_proj", keys},
    {"self_attention.linear_qkv", "self_attn.v_proj", values},
    {"self_attention.linear_proj", "self_attn.o_proj"},
};

constexpr ModuleName kBamba[] = {
    {"decoder.final_norm", "model.final_layernorm"},
    {"pre_mlp_layernorm", "pre_ff_layernorm"},
    {"mlp.linear_fc1", "feed_forward.gate_proj", gate},
    {"mlp.linear_fc1", "feed_forward.up_proj", up},
    {"mlp.linear_fc2", "feed_forward.down_proj"},
};

constexpr ModuleName kGraniteHybrid[] = {
    {"decoder.final_norm", "model.norm"},
    {"pre_mlp_layernorm", "post_attention_layernorm"},
    {"mlp.linear_fc1", "shared_mlp.input_linear"},
    {"mlp.linear_fc2", "shared_mlp.output_linear"},
    {"mlp.shared_experts.linear_fc1", "shared_mlp.input_linear"},
    {"mlp.shared_experts.linear_fc2", "shared_mlp.output_linear"},
    {"mlp.router", "block_sparse_moe.router.layer"},
};

// What names of a layer's rows begin with; nothing for a row outside of layers.
std::string layer_prefix(const RowPlace& place, const char* layers) {
  return place.layer ? concat(layers, *place.layer, ".") : std::string();
}

Names gpt2_names(const ModelConfig& c, const Param& row) {
  Names names = names_in(kGpt2, c, row, layer_prefix(row.place, "transformer.h."));
  if (row.place.layer && row.shape.rank() == 2)
    for (ForeignName& name : names) name.transform.push_back(transpose());
  return names;
}

// A tensor has all experts of a layer.
Names granite_experts(const Param& row, const std::string& layer) {
  const bool first = row.place.module == "linear_fc1";
  ForeignName name{
      concat(layer, "block_sparse_moe.", first ? "input_linear" : "output_linear", ".weight")};
  name.part = *row.place.expert;
  name.parts = row.experts;
  return {name};
}

Names mixtral_experts(const ModelConfig& c, const Param& row, const std::string& layer) {
  return names_in(kMixtralExpert, c, row,
                  concat(layer, "block_sparse_moe.experts.", *row.place.expert, "."));
}

// Heads that each have weights of their own in a norm: a Command R has all in one tensor, a
// StableLM one of each.
Names names_of_head_weights(const ModelConfig& c, const Param& row, const std::string& layer) {
  const std::int64_t d = c.head_dim(), heads = row.shape[0] / d;
  const char of = row.place.module == "self_attention.q_layernorm" ? 'q' : 'k';
  const std::string module = concat(layer, "self_attn.", of);
  if (hugging_face_type(c) != "stablelm")
    return {{concat(module, "_norm.weight"), {reshape({heads, d})}}};
  Names names;
  for (std::int64_t head = 0; head < heads; ++head)
    names.push_back({concat(module, "_layernorm.norms.", head, ".weight"),
                     {pick_rows(heads * d, head * d, d)}});
  return names;
}

// The slopes of an activation, and two numbers that are scalars there.
Names names_of_slopes(const Param& row, const std::string& layer) {
  ForeignName name{concat(layer, "mlp.act_fn.", row.place.param)};
  if (row.place.param == "beta" || row.place.param == "eps")
    name.transform.push_back(reshape(Shape{}));
  return {name};
}

// Channels turn the other way there: of each head's queries and keys the halves change places.
void turn_round(Names& names, const ModelConfig& c) {
  const std::int64_t d = c.head_dim();
  for (ForeignName& name : names)
    if (name.name.ends_with("q_proj.weight") || name.name.ends_with("k_proj.weight"))
      name.transform.push_back(swap_rows(d, 0, d / 2));
}

// Empty where a Llama has the name.
Names own_names(const ModelConfig& c, const Param& row) {
  const std::string_view type = hugging_face_type(c);
  const auto* const found = std::ranges::find(kDecoderNames, type, &DecoderNames::type);
  if (found == std::end(kDecoderNames)) return {};
  const std::string layer = layer_prefix(row.place, found->layers);
  if (type.starts_with("granitemoe") && row.place.expert) return granite_experts(row, layer);
  if (type == "minimax_m2" && row.place.expert) return mixtral_experts(c, row, layer);
  if (type == "hy_v3" && row.place.param == "expert_bias") return {{layer + "mlp.expert_bias"}};
  if (type == "minimax_m2" && row.place.param == "expert_bias")
    return {{layer + "block_sparse_moe.e_score_correction_bias"}};
  Names names;
  if (type == "falcon" && c.parallel_norms) names = names_in(kFalconNorms, c, row, layer);
  return names.empty() ? names_in(found->names, c, row, layer) : names;
}

Names llama_names(const ModelConfig& c, const Param& row) {
  // Layers that predict further tokens are behind the others.
  const bool further = row.place.stack == kFurtherStack;
  const std::string layer = further ? concat(kLlamaLayers, c.num_layers + *row.place.layer, ".")
                                    : layer_prefix(row.place, kLlamaLayers);
  if (row.place.module == "mlp.activation") return names_of_slopes(row, layer);
  if (c.qk_layernorm_per_head && (row.place.module == "self_attention.q_layernorm" ||
                                  row.place.module == "self_attention.k_layernorm"))
    return names_of_head_weights(c, row, layer);
  if (further && row.place.inner.empty()) return names_in(kFurther, c, row, layer);
  if (c.may_have_linear_layers())
    if (Names names = delta_names(c, row, layer); !names.empty()) return names;
  // Of models of experts Mixtral has names of its own.
  const bool qwen = c.qk_layernorm || c.moe_shared_expert_intermediate_size > 0;
  if (row.place.param == "softmax_offset") return {{layer + "self_attn.sinks"}};
  if (c.quick_geglu && row.place.expert) return gpt_oss_experts(row, layer);
  if (c.quick_geglu && row.place.module == "mlp.router")
    return {{concat(layer, "mlp.router.", row.place.param)}};
  if (row.place.param == "gate_weight") return {{layer + "mlp.shared_expert_gate.weight"}};
  if (row.place.param == "expert_bias")
    return {{concat(layer, c.hf_model_type == "exaone_moe" ? "mlp." : "mlp.gate.",
                    "e_score_correction_bias")}};
  if (row.place.module == "mlp.router")
    return names_in(qwen ? kQwenRouter : kMixtralRouter, c, row, layer);
  if (row.place.module.starts_with("mlp.shared_experts."))
    return names_in(
        kShared, c, row,
        layer + (c.moe_shared_expert_gate ? "mlp.shared_expert." : "mlp.shared_experts."));
  if (!row.place.expert) {
    Names names;
    if (c.post_layernorm) names = names_in(kPostNorms, c, row, layer);
    if (c.multi_latent_attention) names = names_in(kLatent, c, row, layer);
    if (names.empty()) names = names_in(kLlama, c, row, layer);
    if (hugging_face_type(c) == "nanochat") turn_round(names, c);
    return names;
  }
  if (!qwen) return mixtral_experts(c, row, layer);
  return names_in(kQwenExpert, c, row, concat(layer, "mlp.experts.", *row.place.expert, "."));
}

// Of a model with Mamba layers: `mixer` is what these are called there, `norm` what is in front.
Names mamba_names(const Param& row, const std::string& layer, const char* mixer, const char* norm) {
  const RowPlace& place = row.place;
  if (place.module == "mixer") return {{concat(layer, mixer, ".", place.param)}};
  if (place.module == "mixer.in_proj" && place.param == "layer_norm_weight")
    return {{concat(layer, norm, ".weight")}};
  if (place.module == "mixer.in_proj" && place.param == "layer_norm_bias")
    return {{concat(layer, norm, ".bias")}};
  return {};
}

Names nemotron_names(const ModelConfig& c, const Param& row) {
  const std::string layer = layer_prefix(row.place, "backbone.layers.");
  const Names names = mamba_names(row, layer, "mixer", "norm");
  if (!names.empty()) return names;
  if (row.place.module == "mlp.router")
    return {{layer + (row.place.param == "expert_bias" ? "mixer.gate.e_score_correction_bias"
                                                       : "mixer.gate.weight")}};
  if (row.place.module.starts_with("mlp.shared_experts."))
    return names_in(kNemotronShared, c, row, layer + "mixer.shared_experts.");
  if (row.place.expert)
    return names_in(kNemotronExpert, c, row,
                    concat(layer, "mixer.experts.", *row.place.expert, "."));
  return names_in(kNemotronH, c, row, layer);
}

// Two of our layers are one of theirs.
Names bamba_names(const ModelConfig& c, const Param& row) {
  const bool granite = mamba_type(c) == "granitemoehybrid";
  std::string layer;
  if (row.place.layer) layer = concat("model.layers.", *row.place.layer / 2, ".");
  Names names = mamba_names(row, layer, "mamba", "input_layernorm");
  if (!names.empty()) return names;
  if (granite && row.place.expert) return granite_experts(row, layer);
  names = granite ? names_in(kGraniteHybrid, c, row, layer) : names_in(kBamba, c, row, layer);
  return names.empty() ? names_in(kMambaDecoder, c, row, layer) : names;
}

Names names_of(const ModelConfig& c, const Param& row);

// Each part has the names of its own model, below one of the joint model's.
Names llava_names(const ModelConfig& c, const Param& row) {
  Param own = row;
  own.place = place_in_part(row.place);
  const LlavaPart part = llava_part(row.place);
  if (part == LlavaPart::projector) {
    constexpr std::string_view kProjector = "multi_modal_projector.";
    if (own.place.param == "layer_norm_weight") return {{concat(kProjector, "layer_norm.weight")}};
    if (own.place.param == "layer_norm_bias") return {{concat(kProjector, "layer_norm.bias")}};
    return {{concat(kProjector, "linear_", own.place.module == "linear_fc1" ? 1 : 2, ".",
                    own.place.param)}};
  }
  const bool language = part == LlavaPart::language;
  Names names = names_of(language ? language_config(c) : tower_config(c), own);
  for (ForeignName& name : names)
    name.name.insert(0, language ? "language_model." : "vision_tower.");
  return names;
}

Names names_of(const ModelConfig& c, const Param& row) {
  switch (c.family) {
    case ModelFamily::gpt:
    case ModelFamily::mixtral:
      if (const Names own = own_names(c, row); !own.empty()) return own;
      return c.position_embedding_type == "learned_absolute" ? gpt2_names(c, row)
                                                             : llama_names(c, row);
    case ModelFamily::bert:
      return bert_names(c, row);
    case ModelFamily::mamba:
      return c.swiglu && c.is_hybrid() ? bamba_names(c, row) : nemotron_names(c, row);
    case ModelFamily::t5:
      return t5_names(c, row);
    case ModelFamily::vit:
      return vit_names(c, row);
    case ModelFamily::llava:
      return llava_names(c, row);
    case ModelFamily::retro:  // of which they have no class
    case ModelFamily::biencoder:
      break;
  }
  return {};
}

}  // namespace

std::string_view hugging_face_type(const ModelConfig& c) {
  if (!c.hf_model_type.empty()) return c.hf_model_type;
  if (c.family == ModelFamily::mixtral && c.has_rope() && c.quick_geglu) return "gpt_oss";
  if (c.family == ModelFamily::mixtral && c.has_rope() && c.qk_layernorm_whole) return "olmoe";
  if (c.delta_setting() != nullptr && c.has_rope()) return "qwen3_next";
  if (c.family != ModelFamily::gpt || !c.has_rope()) return {};
  if (c.parallel_block)
    return c.window_size.empty() && c.no_rope_freq.empty() ? "cohere" : "cohere2";
  if (c.gated_gelu) return !c.post_layernorm ? "gemma" : c.qk_layernorm ? "gemma3_text" : "gemma2";
  if (!c.pre_layernorm) return "olmo2";
  if (c.embedding_mult != 1 || c.residual_mult != 1 || c.logit_scale != 1 || c.softmax_scale)
    return "granite";
  if (!c.no_rope_freq.empty()) return "smollm3";
  if (c.swiglu && c.rotary_percent != 1) return "phi3";
  return {};
}

std::vector<ForeignName> hugging_face_names(const ModelConfig& config, const Param& row) {
  const bool zero = config.family == ModelFamily::t5 && row.place.stack == "lm_head" &&
                    row.place.param == "bias";  // of an output layer that is tied to the words
  if (zero) return {};
  Names names = names_of(config, row);
  if (names.empty()) fail(Exit::bad_data, row.name(), ": has no place in Hugging Face's formats");
  return names;
}

ForeignName fused_expert_name(const Param& row, bool transposed) {
  ForeignName name{concat(layer_prefix(row.place, kLlamaLayers), "mlp.experts.",
                          row.place.module == "linear_fc1" ? "gate_up_proj" : "down_proj")};
  name.part = *row.place.expert;
  name.parts = row.experts;
  if (transposed) name.transform.push_back(transpose());
  return name;
}

std::vector<std::string> hugging_face_copies(const ModelConfig& config, const Param& row) {
  const bool words = row.place.module == "word_embeddings",
             output = words ? !config.untie_embeddings_and_output_weights
                            : row.place.stack == "output_layer";
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < config.mtp_num_layers; ++i) {
    const std::string layer = concat(kLlamaLayers, config.num_layers + i, ".");
    if (words) names.push_back(layer + "embed_tokens.weight");
    if (output) names.push_back(layer + "shared_head.head.weight");
  }
  return names;
}

Shape hugging_face_shape(const Param& row, const ForeignName& name, const ModelConfig& config) {
  if (name.parts > 0) return transformed_shape(name.transform, row.shape).with_front(name.parts);
  if (row.is_vocabulary())
    return Shape(row.shape.extents().subspan(1)).with_front(config.vocab_size);
  return transformed_shape(name.transform, row.shape);
}

}  // namespace mt
