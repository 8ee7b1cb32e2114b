// MambaOptions: what a Mamba-2 or a hybrid has beside a GPT, in the words of pretrain_mamba.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config/mamba_config.h"

namespace mt {

class CommandLine;
struct ModelConfig;
struct PipelineOptions;

struct MambaOptions {
  std::optional<std::string> hybrid_override_pattern, hybrid_layer_pattern;
  double hybrid_attention_ratio = 0, hybrid_mlp_ratio = 0;
  std::int64_t mamba_state_dim = MambaConfig().mamba_state_dim,
               mamba_head_dim = MambaConfig().mamba_head_dim,
               mamba_num_groups = MambaConfig().mamba_num_groups;
  std::optional<std::int64_t> mamba_num_heads;
  bool is_hybrid_model = false;
  std::vector<std::string> spec;

  void add_to(CommandLine& cl);
  // Makes the model a Mamba with these layers, in the stages that the pattern has.
  void make_mamba(ModelConfig& model, PipelineOptions& pipeline) const;
  // Exit::usage where one says something that a model of this type has no use for.
  void check_unused(const std::string& type_option) const;
};

}  // namespace mt
