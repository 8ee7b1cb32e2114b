// The rows of a layer whose attention and MLP read the same hidden states: by one norm, that of the
// former, or by a norm each.
#include "model/layers/layer_rows.h"

namespace mt {

static Branch make_parallel_block(const LayerRows& layer) {
  const Norm norm = layer.make_branch_norm("self_attention.linear_qkv", "layer_norm_weight");
  const SelfAttention attention = make_self_attention(layer);
  const bool recompute = layer.config.recompute.part("layernorm");
  const Branch::Behind behind = layer.make_behind("", Purpose::hidden_dropout1);
  if (!layer.config.parallel_norms)
    return Branch(norm, ParallelBlock(attention, make_mlp_module(layer)), recompute, behind);
  const Norm of_mlp = layer.make_branch_norm("mlp.linear_fc1", "layer_norm_weight");
  const Mlp mlp = make_mlp_module(layer);
  return Branch({}, ParallelBlock(attention, mlp, ParallelBlock::Norms{norm, of_mlp, recompute}),
                false, behind);
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
