// The rows of a layer whose attention and MLP read one norm, that of the former.
#include "model/layers/layer_rows.h"

namespace mt {

static Branch make_parallel_block(const LayerRows& layer) {
  const Norm norm = layer.make_branch_norm("self_attention.linear_qkv", "layer_norm_weight");
  const SelfAttention attention = make_self_attention(layer);
  return Branch(norm, ParallelBlock(attention, make_mlp_module(layer)),
                layer.config.recompute.part("layernorm"),
                layer.make_behind("", Purpose::hidden_dropout1));
}

extern const BranchKind kParallelBlock{
    .letter = '=',
    .make = make_parallel_block,
    .extra_states =
        [](const ModelConfig& c) {
          std::vector<ExtraState> states = extra_states_of_attention(c);
          for (const char* module : {"mlp.linear_fc1", "mlp.linear_fc2"})
            states.push_back({module});
          return states;
        },
    .flops = flops_of_attention,
    .keep = keep_of_attention};

}  // namespace mt
