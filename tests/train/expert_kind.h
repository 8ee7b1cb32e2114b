// ExpertKind: how ranks divide a model that has experts.
#pragma once

#include <optional>

#include "tests/train/layouts.h"

namespace mt {

struct ExpertKind {
  int tensor = 1, context = 1, stages = 1, data = 1, experts = 1;
  std::optional<int> expert_tensor = {};
  PipelineOptions pipeline = {};

  int ranks() const { return tensor * context * stages * data; }
  ParallelOptions parallel() const {
    ParallelOptions parallel;
    parallel.tensor_model_parallel_size = tensor;
    parallel.sequence_parallel = tensor > 1;
    parallel.context_parallel_size = context;
    parallel.pipeline_model_parallel_size = stages;
    parallel.expert_model_parallel_size = experts;
    parallel.expert_tensor_parallel_size = expert_tensor;
    return parallel;
  }
};

}  // namespace mt
