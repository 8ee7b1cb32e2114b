// MambaConfig: a Mamba-2's layers, and which layers of a hybrid are others.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

struct MambaConfig {
  // A letter for each layer: M is Mamba's, * attention, - an MLP; all M if none is given.
  std::string hybrid_pattern;
  std::int64_t mamba_num_heads = 0, mamba_head_dim = 64;  // 0: the channels are twice hidden_size
  std::int64_t mamba_state_dim = 128, mamba_num_groups = 8;

  // Of a model whose matrices so many ranks share.
  void complete_mamba(std::int64_t layers, std::int64_t hidden_size, std::int64_t ranks);

  std::int64_t mamba_inner() const { return mamba_num_heads * mamba_head_dim; }  // channels
  std::int64_t mamba_states() const { return mamba_num_groups * mamba_state_dim; }
  bool is_hybrid() const { return hybrid_pattern.find_first_not_of('M') != std::string::npos; }
};

inline constexpr std::int64_t kMambaConv = 4;  // tokens of a convolution

// The pattern of --hybrid-attention-ratio and --hybrid-mlp-ratio: attention is spread evenly among
// the layers, and then MLPs among the others (megatron/core/ssm/mamba_hybrid_layer_allocation.py).
std::string hybrid_pattern_of(std::int64_t layers, double attention_ratio, double mlp_ratio);

}  // namespace mt
