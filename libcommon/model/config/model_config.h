// ModelConfig: the settings of a model of any family that mt-convert knows: those of a GPT, and
// what other families have beside or instead.  Models of other families have no modules here yet:
// their tensors are converted, not computed with.
#pragma once

#include <bit>
#include <functional>
#include <string>

#include "ckpt/pickle.h"
#include "model/config/gpt_config.h"
#include "tensor/dtype.h"

namespace mt {

enum class ModelFamily : std::uint8_t {
  gpt,
  mixtral,  // a Mistral whose MLPs are experts
  gemma,    // a Llama with GeGLU, RMSNorm of 1 + weight, and scaled embeddings
  bert,     // Megatron's: pre-norm, with pooler and binary head
  mamba,    // Mamba-2, or a hybrid of its layers with others
  t5,       // an encoder, and a decoder that attends to what it makes of another text
};

struct ModelConfig : GptConfig {
  ModelConfig() = default;
  ModelConfig(const GptConfig& gpt) : GptConfig(gpt) {}  // NOLINT(google-explicit-constructor)

  ModelFamily family = ModelFamily::gpt;
  std::int64_t num_experts = 0, moe_router_topk = 2;  // of Mixtral
  double moe_aux_loss_coeff = 0;
  // Of Mamba.  A layer has a letter: M is Mamba's, * attention, - an MLP; all M if none is given.
  std::string hybrid_pattern;
  std::int64_t mamba_num_heads = 0, mamba_head_dim = 64;  // 0: the channels are twice hidden_size
  std::int64_t mamba_state_dim = 128, mamba_num_groups = 8;

  // Of T5, whose num_layers are the decoder's.  Its position_embedding_type may be relative, too.
  std::int64_t encoder_num_layers = 0;
  std::int64_t relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  bool relu = false, gated_gelu = false;  // in its MLPs
  bool scale_decoder_outputs = false;     // in Hugging Face's model, by 1 / sqrt(hidden_size)

  std::int64_t mamba_inner() const { return mamba_num_heads * mamba_head_dim; }  // channels
  std::int64_t mamba_states() const { return mamba_num_groups * mamba_state_dim; }
  bool is_hybrid() const { return hybrid_pattern.find_first_not_of('M') != std::string::npos; }
  void complete();
};

inline constexpr std::int64_t kMambaConv = 4;  // tokens of a convolution

// Whether numbers can be multiplied by the square root without rounding.
inline bool is_power_of_four(std::int64_t n) {
  const auto bits = static_cast<std::uint64_t>(n);
  return std::has_single_bit(bits) && std::countr_zero(bits) % 2 == 0;
}

// The pattern of --hybrid-attention-ratio and --hybrid-mlp-ratio: attention is spread evenly among
// the layers, and then MLPs among the others (megatron/core/ssm/mamba_hybrid_layer_allocation.py).
std::string hybrid_pattern_of(std::int64_t layers, double attention_ratio, double mlp_ratio);

// The attributes of Megatron's argument namespace that describe the model.  What Megatron-LM's
// command line has not is called as in its TransformerConfig: GeGLU is gated_linear_unit, ReLU
// activation_func.
void add_model_args(const ModelConfig& config, DType dtype, PyValue& args);

// The reverse; `has_tensor` tells whether the checkpoint has a tensor of this name, from which a
// BERT and a T5 are known.  Exit::bad_data; completed.
ModelConfig model_config_of(const PyValue& args,
                            const std::function<bool(const std::string&)>& has_tensor,
                            const std::string& where);

}  // namespace mt
