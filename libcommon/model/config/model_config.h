// ModelConfig: the shape and the mathematics of a model, in Megatron's words and with its defaults.
// It consists of parts, which those who need no more include alone; model/config/settings.h lists
// the settings of all parts once.
//
// GPT-2 is the default kind; `--position-embedding-type rope --normalization RMSNorm --swiglu
// --disable-bias-linear --untie-embeddings-and-output-weights` makes a Llama, and a Gemma or a
// Granite is made of further ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "model/config/adapter_config.h"
#include "model/config/attention_config.h"
#include "model/config/biencoder_config.h"
#include "model/config/delta_config.h"
#include "model/config/encoder_config.h"
#include "model/config/expert_config.h"
#include "model/config/head_config.h"
#include "model/config/image_text_config.h"
#include "model/config/init_config.h"
#include "model/config/latent_config.h"
#include "model/config/mamba_config.h"
#include "model/config/mlp_config.h"
#include "model/config/mtp_config.h"
#include "model/config/norm_config.h"
#include "model/config/position_config.h"
#include "model/config/recompute.h"
#include "model/config/retro_config.h"
#include "model/config/sizes.h"
#include "model/config/vision_config.h"

namespace mt {

class CommandLine;

struct Setting;  // model/config/setting.h

enum class ModelFamily : std::uint8_t {
  gpt,
  mixtral,  // a Mistral whose MLPs are experts
  bert,     // Megatron's: pre-norm, with pooler and binary head
  mamba,    // Mamba-2, or a hybrid of its layers with others
  t5,       // an encoder, and a decoder that attends to what it makes of another text
  retro,    // a GPT some of whose layers attend to neighbours that were retrieved
  vit,      // Megatron's Vision Transformer: patches of an image, and tokens of classes before them
  llava,    // a GPT that reads images, too, by a tower that is a ViT without a head
  biencoder,  // two BERTs without heads, of queries and of contexts, or one for both
};

struct ModelConfig : Sizes,
                     Multipliers,
                     AttentionConfig,
                     DeltaConfig,
                     LatentConfig,
                     PositionConfig,  // a T5's position_embedding_type may be relative, too
                     MlpConfig,
                     NormConfig,
                     InitConfig,
                     ExpertConfig,
                     MambaConfig,
                     MtpConfig,
                     EncoderConfig,
                     BiencoderConfig,
                     RetroConfig,
                     VisionConfig,
                     ImageTextConfig,
                     HeadConfig,
                     AdapterConfig {
  ModelFamily family = ModelFamily::gpt;
  // Attention and MLP of a layer read the same norm, and are added to what it had read.
  bool parallel_block = false;
  bool parallel_norms = false;  // the MLP of such a block reads a norm of its own
  // What transformers calls it (model_type), where that does not follow from the other settings.
  std::string hf_model_type;
  RecomputeOptions recompute;
  // On the CPU: what the model says of a token depends, to the bit, neither on how many are
  // computed together nor on whether those before it come from a cache, but on matrices that ranks
  // share.
  bool batch_invariant = false;
  // On the CPU: a generation keeps the experts that its tokens go to, beside keys and values.
  bool keeps_choices = false;

  void add_to(CommandLine& cl);  // the flags of training.md 1.1 that are supported
  // Checks what must fit together, naming the option that is wrong, and derives the padded
  // vocabulary, of a model whose matrices so many ranks share.
  void complete(int tensor_ranks = 1);

  // The flag of a setting that neither GPT-2, Llama nor Qwen has, nor any other family; null: it
  // has none.  Those of which `but` is set are passed over.
  const char* later_setting(bool Setting::*but = nullptr) const;

  // The layers that predict one further token.
  std::int64_t further_layers() const {
    return family == ModelFamily::mamba ? std::ssize(mtp_hybrid_pattern) : 1;
  }
  std::int64_t all_layers() const { return num_layers + encoder_num_layers; }
  std::int64_t ffn() const { return MlpConfig::ffn(hidden_size); }
  // Whether some layers have experts, and some an MLP.
  bool has_experts() const {
    return family == ModelFamily::mixtral || (family == ModelFamily::mamba && has_layer('E'));
  }
  bool has_mlps() const {
    if (family == ModelFamily::mamba) return has_layer('-');
    return !has_experts() || has_dense_layers(num_layers);
  }
  std::int64_t expert_ffn() const { return moe_ffn_hidden_size.value_or(ffn()); }
  // With latent attention it is the wider of keys' and values'.
  std::int64_t head_dim() const {
    if (multi_latent_attention) return std::max(latent_q_width(), v_head_dim);
    return kv_channels ? *kv_channels : hidden_size / num_attention_heads;
  }
  std::int64_t rotary_dim() const {
    return multi_latent_attention ? qk_pos_emb_head_dim : rotated(head_dim());
  }
  std::vector<double> rotary_frequencies() const {
    return multi_latent_attention ? latent_frequencies(rotary_base, max_position_embeddings)
                                  : frequencies(head_dim());
  }
  // Whether some of a head's channels do not turn: a factor of those that do is no factor of
  // scores.
  bool turns_in_part() const {
    return (has_rope() && rotary_dim() != head_dim()) || !no_rope_freq.empty();
  }
  // Whether a layer turns by the frequencies of layers with a window.
  bool turns_by_window(std::int64_t layer) const {
    return rotary_base_window != 0 && window(layer) >= 0;
  }
  double score_scale() const {
    if (multi_latent_attention) return latent_scale();
    return softmax_scale ? *softmax_scale : 1 / std::sqrt(static_cast<double>(head_dim()));
  }
  // A vector that a tower makes has so many numbers.
  std::int64_t embedding_width() const {
    return biencoder_projection_dim > 0 ? biencoder_projection_dim : hidden_size;
  }
  // Whether it is an InternViT by itself, and not a LLaVA that has one.
  bool is_internvit_tower() const { return family == ModelFamily::vit && is_internvit(); }
  // What it has of a Qwen3-Next's layers, as an option says it; null: nothing.
  const char* delta_setting() const {
    return may_have_linear_layers() ? "--experimental-attention-variant gated_delta_net"
           : attention_output_gate  ? "--attention-output-gate"
                                    : nullptr;
  }
  // What GPUs have no kernels for, likewise.
  const char* setting_of_cpus() const;
  bool has_proj_bias() const { return add_bias_linear && attention_bias; }
  bool has_qkv_bias() const {
    return (has_proj_bias() && qkv_bias && !is_internvit_tower()) || add_qkv_bias;
  }
};

// Throws Exit::bad_config, naming the setting, where the model of a run computes something else
// than the model of the checkpoint `where`.  Both are completed.  A run that begins anew may have
// another base and scaling of rotary positions and other windows; what differs of these is told.
std::string check_same_model(const ModelConfig& run, const ModelConfig& stored,
                             const std::string& where, bool begins_anew = false);

// The first setting in which two models of as many layers compute something else; null: none.
const char* differing_setting(const ModelConfig& a, const ModelConfig& b);

// Whether numbers can be multiplied by the square root without rounding.
inline bool is_power_of_four(std::int64_t n) {
  const auto bits = static_cast<std::uint64_t>(n);
  return std::has_single_bit(bits) && std::countr_zero(bits) % 2 == 0;
}

}  // namespace mt
