// MambaConfig: a Mamba-2's layers, and which layers of a hybrid are others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

struct MambaConfig {
  // A letter for each layer: M is Mamba's, * attention, + latent attention, - an MLP, E experts;
  // all M if none is given.
  std::string hybrid_pattern;
  // These layers predict a further token, the same ones each.
  std::string mtp_hybrid_pattern;
  std::int64_t mamba_num_heads = 0, mamba_head_dim = 64;  // 0: the channels are twice hidden_size
  std::int64_t mamba_state_dim = 128, mamba_num_groups = 8;

  // Of a model whose matrices so many ranks share.
  void complete_mamba(std::int64_t layers, std::int64_t hidden_size, std::int64_t ranks);

  std::int64_t mamba_inner() const { return mamba_num_heads * mamba_head_dim; }  // channels
  std::int64_t mamba_states() const { return mamba_num_groups * mamba_state_dim; }
  bool is_hybrid() const { return hybrid_pattern.find_first_not_of('M') != std::string::npos; }
  // What --hybrid-layer-pattern would say of it, with so many further tokens: "M*-/M*/M*".
  std::string whole_pattern(std::int64_t further_tokens) const;
  bool has_layer(char letter) const {
    return (hybrid_pattern + mtp_hybrid_pattern).find(letter) != std::string::npos;
  }

 private:
  void check_pattern(const std::string& pattern) const;
};

inline constexpr std::int64_t kMambaConv = 4;  // tokens of a convolution

// HybridPattern: a pattern of Megatron's main, "MM|*-/*E/*E" say: layers of the stages of a
// pipeline, and behind each slash the layers that predict one further token.
struct HybridPattern {
  std::string layers = {}, further = {};
  std::int64_t further_tokens = 0;
  std::vector<std::int64_t> segments = {};  // layers of each stage; empty: the pattern parts none
};
// Exit::bad_config where it has no such form; letters are checked by complete_mamba().
HybridPattern parse_hybrid_pattern(const std::string& pattern);

// The pattern of --hybrid-attention-ratio and --hybrid-mlp-ratio: attention is spread evenly among
// the layers, and then MLPs among the others (megatron/core/ssm/mamba_hybrid_layer_allocation.py).
std::string hybrid_pattern_of(std::int64_t layers, double attention_ratio, double mlp_ratio);

}  // namespace mt
