// A T5 in all kinds of layouts against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct Kind {
  int tensor = 1, stages = 1, data = 1;
  bool sequence = false;
  PipelineOptions pipeline = {};
};

// Of two layers of each stack, for steps of four micro-batches on one data-parallel rank and two on
// two.
const std::vector<Kind> kKinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true},
    {.tensor = 4, .data = 2, .sequence = true},
    {.data = 2},
    {.data = 4},
    {.stages = 2},
    {.stages = 4},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.tensor = 2, .stages = 2, .data = 2},
    {.stages = 2, .data = 2},
    {.stages = 4, .data = 2},
    {.stages = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.tensor = 2, .stages = 2, .sequence = true, .pipeline = {.virtual_stages_per_rank = 2}},
    {.stages = 4, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .pipeline = {.schedule = "gpipe"}},
    {.stages = 2, .pipeline = {.layout = "E|ttt|t|L"}},
    {.stages = 2, .pipeline = {.layout = "Et|tttL"}},
    {.stages = 3, .pipeline = {.layout = "Ettt|t|L"}},
};

std::vector<TrainedLayout> t5_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "mlp", "layernorm"};
  const std::vector<std::string> sharded{"no_shard", "optim", "optim_grads", "optim_grads_params"};
  std::size_t turn = 0;  // which recomputation and sharding are next
  for (const char* positions : {"learned_absolute", "relative", "rope"})
    for (const bool tied : {true, false})
      for (const Kind& kind : kKinds)
        for (const bool shared : {false, true}) {
          if (shared && kind.data == 1) continue;
          TrainedLayout layout{.style = Style::t5,
                               .tied = tied,
                               .ranks = kind.tensor * kind.stages * kind.data,
                               .pipeline = kind.pipeline,
                               .positions = positions};
          layout.parallel.tensor_model_parallel_size = kind.tensor;
          layout.parallel.pipeline_model_parallel_size = kind.stages;
          layout.parallel.sequence_parallel = kind.sequence;
          layout.recompute = again[turn % again.size()];
          if (shared) layout.sharding = sharded[turn % sharded.size()];
          layout.distributed = shared && layout.sharding == "no_shard";
          if (kind.data > 1 && layout.sharding == "no_shard") layout.bucket = 3000;
          ++turn;
          all.push_back(layout);
          if (tied || kind.data > 1) continue;
          layout.dtype = DType::f32;
          all.push_back(layout);
        }
  return all;
}

class T5Layouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, T5Layouts, in_this_run(t5_layouts()), name_of_layout);

TEST_P(T5Layouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
