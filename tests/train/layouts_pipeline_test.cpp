// Pipelines, beside tensor, sequence and data parallelism, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct Pipeline {
  int stages;
  PipelineOptions options = {};
};

// Of four layers, for steps of four micro-batches on one data-parallel rank and two on two.
const std::vector<Pipeline> kPipelines{
    {2},
    {4},
    {2, {.schedule = "gpipe"}},
    {4, {.schedule = "zero-bubble"}},
    {2, {.virtual_stages_per_rank = 2}},
    {2, {.layout = "E|ttt|t|L"}},
};

std::vector<TrainedLayout> pipeline_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "mlp", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const Style style : {Style::gpt, Style::llama})
    for (const bool tied : {true, false})
      for (const Pipeline& pipeline : kPipelines)
        for (const int tensor : {1, 2})
          for (const int data : {1, 2}) {
            if (pipeline.stages * tensor * data > 8) continue;
            TrainedLayout layout{.style = style,
                                 .tied = tied,
                                 .ranks = pipeline.stages * tensor * data,
                                 .pipeline = pipeline.options,
                                 .num_layers = 4};
            layout.parallel.pipeline_model_parallel_size = pipeline.stages;
            layout.parallel.tensor_model_parallel_size = tensor;
            layout.parallel.sequence_parallel = tensor == 2 && tied;
            layout.parallel.use_tp_pp_dp_mapping = data == 2 && !tied;
            layout.distributed = data == 2 && style == Style::gpt;
            layout.recompute = again[turn++ % again.size()];
            all.push_back(layout);
            if (style == Style::gpt || tied || tensor == 2) continue;
            layout.dtype = DType::f32;
            all.push_back(layout);
          }
  return all;
}

class PipelineLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, PipelineLayouts, in_this_run(pipeline_layouts()), name_of_layout);

TEST_P(PipelineLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
