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
    }
  return all;
}

class Fp8Layouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, Fp8Layouts, in_this_run(fp8_layouts()), name_of_layout);

TEST_P(Fp8Layouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
