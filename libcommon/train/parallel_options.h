// ParallelOptions: how the ranks of a run share its work.
#pragma once

#include "base/command.h"
#include "comm/rank_grid.h"

namespace mt {

struct ParallelOptions {
  int tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1, context_parallel_size = 1;
  bool sequence_parallel = false, use_tp_pp_dp_mapping = false;

  void add_to(CommandLine& cl);
  // Exit::bad_config where so many ranks cannot be shared like this.
  void complete(int ranks) const;
  ParallelSizes sizes(int ranks) const;
  // Whether tensor-parallel ranks share the rows of hidden states.
  bool shares_rows() const { return sequence_parallel && tensor_model_parallel_size > 1; }
};

}  // namespace mt
