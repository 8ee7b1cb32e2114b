// ModelConfig: the settings of a model of any family that mt-convert knows: those of a GPT, and
// what other families have beside or instead.  Models of other families have no modules here yet:
// their tensors are converted, not computed with.
#pragma once

#include <functional>
#include <string>

#include "ckpt/pickle.h"
#include "model/gpt_config.h"
#include "tensor/dtype.h"

namespace mt {

enum class ModelFamily : std::uint8_t {
  gpt,
  mixtral,  // a Mistral whose MLPs are experts
  gemma,    // a Llama with GeGLU, RMSNorm of 1 + weight, and scaled embeddings
  bert,     // Megatron's: pre-norm, with pooler and binary head
  mamba,    // Mamba-2 without attention layers
};

struct ModelConfig : GptConfig {
  ModelConfig() = default;
  ModelConfig(const GptConfig& gpt) : GptConfig(gpt) {}  // NOLINT(google-explicit-constructor)

  ModelFamily family = ModelFamily::gpt;
  std::int64_t num_experts = 0, moe_router_topk = 2;  // of Mixtral
  double moe_aux_loss_coeff = 0;
  std::int64_t mamba_state_dim = 128, mamba_num_groups = 8;  // of Mamba; its heads are the model's

  std::int64_t mamba_inner() const { return num_attention_heads * head_dim(); }  // channels
  std::int64_t mamba_states() const { return mamba_num_groups * mamba_state_dim; }
  void complete();
};

inline constexpr std::int64_t kMambaConv = 4;  // tokens of a convolution

// The attributes of Megatron's argument namespace that describe the model.  GeGLU, which
// Megatron-LM's command line has not, is gated_linear_unit, as in its TransformerConfig.
void add_model_args(const ModelConfig& config, DType dtype, PyValue& args);

// The reverse; `has_tensor` tells whether the checkpoint has a tensor of this name, from which a
// BERT is known.  Exit::bad_data; completed.
ModelConfig model_config_of(const PyValue& args,
                            const std::function<bool(const std::string&)>& has_tensor,
                            const std::string& where);

}  // namespace mt
