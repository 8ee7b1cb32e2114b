// Products of eight bits in every kind of layout against one rank: the scales are the same, and so
// all codes; those of blocks where ranks have whole ones.  The first step's delayed scales are 1,
// whatever a gradient is divided by: so this is the same where it is the sum over all tokens.
#include "tests/train/layouts.h"

namespace mt {
namespace {

std::vector<TrainedLayout> fp8_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "mlp", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const char* recipe : {"tensorwise", "delayed", "blockwise"})
    for (const Style style : {Style::gpt, Style::llama}) {
      const auto add = [&](int ranks, const auto& change) {
        TrainedLayout layout{.style = style, .ranks = ranks, .fp8 = recipe};
        layout.recompute = again[turn++ % again.size()];
        change(layout);
        layout.per_token_loss = std::string_view(recipe) == "delayed";
        all.push_back(layout);
      };
      add(2, [](TrainedLayout& l) { l.distributed = true; });
      add(2, [](TrainedLayout& l) { l.sharding = "optim_grads_params"; });
      add(4, [](TrainedLayout& l) { l.distributed = l.gathers_codes = true; });
      add(4, [](TrainedLayout& l) {
        l.distributed = l.gathers_codes = true;
        l.instances = 2;
        l.bucket = 3000;
      });
      add(2, [](TrainedLayout& l) {
        l.sharding = "optim_grads";
        l.distributed = l.gathers_codes = true;
      });
      add(2, [](TrainedLayout& l) { l.parallel.pipeline_model_parallel_size = 2; });
      add(2, [](TrainedLayout& l) {
        l.parallel.pipeline_model_parallel_size = 2;
        l.pipeline.schedule = "zero-bubble";
      });
      if (std::string_view(recipe) == "blockwise") continue;
      add(2, [](TrainedLayout& l) { l.parallel.tensor_model_parallel_size = 2; });
      for (const bool overlap : {false, true}) {
        const int ranks = overlap ? 2 : 4;  // 32 tokens, of which products then have parts
        add(ranks, [&](TrainedLayout& l) {
          l.parallel.tensor_model_parallel_size = ranks;
          l.parallel.sequence_parallel = true;
          l.parallel.tp_comm_overlap = overlap;
        });
      }
      add(2, [](TrainedLayout& l) { l.parallel.context_parallel_size = 2; });
      add(8, [](TrainedLayout& l) {
        l.parallel.tensor_model_parallel_size = 2;
        l.parallel.pipeline_model_parallel_size = 2;
        l.parallel.sequence_parallel = l.distributed = true;
      });
      add(8, [](TrainedLayout& l) {
        l.parallel.tensor_model_parallel_size = 2;
        l.parallel.context_parallel_size = 2;
        l.distributed = l.gathers_codes = true;
        l.bucket = 5000;
      });
    }
  return all;
}

class Fp8Layouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, Fp8Layouts, in_this_run(fp8_layouts()), name_of_layout);

TEST_P(Fp8Layouts, AsOneRank) { expect_as_one_rank(); }

// Of weights that are cast before they are gathered, and after.
TEST_P(Fp8Layouts, SameBitsOfGatheredCodes) {
  TrainedLayout layout = GetParam();
  if (!layout.gathers_codes) GTEST_SKIP() << "weights are gathered";
  const LayoutRun codes = run(options_of(layout));
  layout.gathers_codes = false;
  const LayoutRun values = run(options_of(layout));
  EXPECT_EQ(codes.weights, values.weights);
  ASSERT_EQ(codes.steps.size(), values.steps.size());
  for (std::size_t i = 0; i < codes.steps.size(); ++i) {
    EXPECT_EQ(codes.steps[i].loss, values.steps[i].loss);
    EXPECT_EQ(codes.steps[i].grad_norm, values.steps[i].grad_norm);
    EXPECT_EQ(codes.steps[i].gradients, values.steps[i].gradients);
  }
}

}  // namespace
}  // namespace mt
