// Ranks that share experts, beside all other ways to share the work, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct Kind {
  int tensor = 1, context = 1, stages = 1, data = 1, experts = 1;
  std::optional<int> expert_tensor = {};
  PipelineOptions pipeline = {};
};

const std::vector<Kind> kKinds{
    {.tensor = 2},
    {.tensor = 4},
    {.tensor = 2, .data = 2},
    {.data = 2, .experts = 2},
    {.data = 4, .experts = 2},
    {.data = 4, .experts = 4},
    {.data = 2, .expert_tensor = 2},
    {.data = 4, .experts = 2, .expert_tensor = 2},
    {.tensor = 2, .experts = 2, .expert_tensor = 1},
    {.tensor = 4, .experts = 4, .expert_tensor = 1},
    {.tensor = 2, .data = 2, .experts = 2},
    {.tensor = 2, .data = 2, .experts = 4, .expert_tensor = 1},
    {.tensor = 4, .data = 2, .experts = 2},
    {.tensor = 4, .data = 2, .experts = 2, .expert_tensor = 2},
    {.tensor = 2, .data = 2, .experts = 1, .expert_tensor = 4},
    {.context = 2, .experts = 2},
    {.context = 2, .data = 2, .experts = 4},
    {.tensor = 2, .context = 2, .experts = 2},
    {.stages = 2, .data = 2, .experts = 2},
    {.tensor = 2, .stages = 2, .data = 2, .experts = 2},
    {.tensor = 2, .stages = 2, .experts = 2, .expert_tensor = 1},
    {.context = 2, .stages = 2, .data = 2, .experts = 4},
    {.tensor = 2, .context = 2, .stages = 2, .experts = 4, .expert_tensor = 1},
    {.stages = 2, .data = 2, .experts = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .experts = 2, .pipeline = {.virtual_stages_per_rank = 2}},
};

std::vector<TrainedLayout> expert_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const char* dispatcher : {"allgather", "alltoall"})
    for (const Kind& kind : kKinds) {
      TrainedLayout layout{.style = Style::experts,
                           .tied = turn % 2 == 0,
                           .ranks = kind.tensor * kind.context * kind.stages * kind.data,
                           .pipeline = kind.pipeline,
                           .num_layers = kind.stages == 2 ? 4 : 2,
                           .recompute = again[turn % again.size()],
                           .distributed = kind.data > 1 && turn % 3 > 0};
      ++turn;
      ParallelOptions& parallel = layout.parallel;
      parallel.tensor_model_parallel_size = kind.tensor;
      parallel.sequence_parallel = kind.tensor > 1;
      parallel.context_parallel_size = kind.context;
      parallel.pipeline_model_parallel_size = kind.stages;
      parallel.expert_model_parallel_size = kind.experts;
      parallel.expert_tensor_parallel_size = kind.expert_tensor;
      parallel.moe_token_dispatcher_type = dispatcher;
      all.push_back(layout);
      if (kind.tensor == 1 && kind.context == 1) {  // one rank has the same tokens at a time
        all.push_back(layout);
        all.back().capacity = true;
      }
      layout.dtype = DType::f32;
      all.push_back(layout);
    }
  return all;
}

class ExpertLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, ExpertLayouts, in_this_run(expert_layouts()), name_of_layout);

TEST_P(ExpertLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
