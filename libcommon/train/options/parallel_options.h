// ParallelOptions: how the ranks of a run share its work.
#pragma once

#include "base/command.h"
#include "comm/rank_grid.h"
#include "nn/context_comm.h"

namespace mt {

struct ParallelOptions {
  int tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1, context_parallel_size = 1;
  int encoder_stages = 0;  // a T5's, in front of the others (EncoderOptions)
  std::vector<std::string> cp_comm_type = {"p2p"};                // of each layer, or of all
  std::vector<std::int64_t> hierarchical_context_parallel_sizes;  // of a2a+p2p: heads, ring
  int expert_model_parallel_size = 1;
  std::optional<int> expert_tensor_parallel_size;  // by default as of the rest
  std::string moe_token_dispatcher_type = "allgather";
  std::optional<double> moe_buffer_factor;
  bool moe_shared_expert_overlap = false;
  bool sequence_parallel = false, tp_comm_overlap = false, use_tp_pp_dp_mapping = false;

  void add_to(CommandLine& cl);
  // Exit::bad_config where so many ranks, asked for by `option`, cannot be shared like this.
  void complete(int ranks, const std::string& option) const;
  ParallelSizes sizes(int ranks) const;
  int stages() const { return encoder_stages + pipeline_model_parallel_size; }
  std::vector<ContextComm> context_comm() const;
  // Ranks that share a layer's heads instead of its keys, of those that share sequences.
  int head_ranks(ContextComm comm) const;
  int expert_tensor_ranks() const {
    return expert_tensor_parallel_size.value_or(tensor_model_parallel_size);
  }
  bool passes_keys() const;  // whether some layer shares those
  // Whether tensor-parallel ranks share the rows of hidden states.
  bool shares_rows() const { return sequence_parallel && tensor_model_parallel_size > 1; }
};

}  // namespace mt
