// Gradients and weights of which each data-parallel rank keeps a part, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct Beside {  // what else the ranks share
  int data = 2, stages = 1, tensor = 1, context = 1, instances = 1;
  std::string recompute = {};
  PipelineOptions pipeline = {};
};

const std::vector<Beside> kBeside{
    {.data = 2},
    {.data = 4, .recompute = "full"},
    {.data = 4, .instances = 2},
    {.data = 2, .tensor = 2, .recompute = "core_attn"},
    {.data = 2, .context = 2, .recompute = "layernorm"},
    {.data = 2, .stages = 2, .recompute = "full"},
    {.data = 2, .stages = 2, .tensor = 2},
    {.data = 2, .stages = 2, .recompute = "mlp", .pipeline = {.schedule = "gpipe"}},
    {.data = 2, .stages = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.data = 2, .stages = 2, .recompute = "full", .pipeline = {.virtual_stages_per_rank = 2}},
};

std::vector<TrainedLayout> sharding_layouts() {
  std::vector<TrainedLayout> all;
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"})
    for (const Style style : {Style::gpt, Style::llama})
      for (const Beside& beside : kBeside) {
        const bool least = strategy == std::string_view("optim");
        if (least && (beside.stages == 1 || style == Style::llama)) continue;  // among the others
        TrainedLayout layout{.style = style,
                             .tied = (style == Style::gpt) == (beside.tensor == 1),
                             .ranks = beside.data * beside.stages * beside.tensor * beside.context,
                             .pipeline = beside.pipeline,
                             .num_layers = beside.pipeline.virtual_stages_per_rank ? 4 : 3,
                             .recompute = beside.recompute,
                             .instances = beside.instances,
                             .sharding = strategy};
        if (beside.stages == 2) layout.num_layers = 4;
        ParallelOptions& parallel = layout.parallel;
        parallel.pipeline_model_parallel_size = beside.stages;
        parallel.tensor_model_parallel_size = beside.tensor;
        parallel.sequence_parallel = beside.tensor == 2;
        parallel.context_parallel_size = beside.context;
        all.push_back(layout);
        if (beside.tensor == 2) continue;
        layout.dtype = DType::f32;
        all.push_back(layout);
      }
  // Matrices so large that what a micro-batch first adds to their gradients replaces what was
  // there.
  for (const char* strategy : {"optim", "optim_grads"})
    for (const char* schedule : {"1f1b", "zero-bubble"}) {
      TrainedLayout large{
          .ranks = 4, .pipeline = {.schedule = schedule}, .hidden_size = 128, .sharding = strategy};
      large.parallel.pipeline_model_parallel_size = 2;
      all.push_back(large);
    }
  return all;
}

class ShardingLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, ShardingLayouts, in_this_run(sharding_layouts()), name_of_layout);

TEST_P(ShardingLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
