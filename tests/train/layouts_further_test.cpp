// Predictions of further tokens in layouts of each kind, and of several, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct FurtherKind {
  int tensor = 1, context = 1, stages = 1, data = 1;
  bool sequence = false, per_token_loss = false;
  const char* recompute = "";
};

const std::vector<FurtherKind> kFurtherKinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true, .recompute = "full"},
    {.tensor = 4, .sequence = true},
    {.context = 2},
    {.context = 2, .per_token_loss = true},
    {.stages = 2},
    {.stages = 2, .recompute = "full"},
    {.data = 2},
    {.data = 2, .per_token_loss = true},
    {.tensor = 2, .context = 2, .sequence = true},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.context = 2, .stages = 2, .recompute = "core_attn"},
    {.stages = 2, .data = 2},
    {.tensor = 2, .context = 2, .stages = 2, .sequence = true},
};

std::vector<TrainedLayout> further_layouts() {
  std::vector<TrainedLayout> all;
  for (const auto& [style, tied, further] :
       {std::tuple(Style::llama, true, 2), {Style::llama, false, 1}, {Style::latent, false, 1}})
    for (const FurtherKind& kind : kFurtherKinds) {
      if (style == Style::latent && kind.per_token_loss) continue;
      TrainedLayout& l = all.emplace_back();
      l.style = style;
      l.tied = tied;
      l.further = further;
      l.ranks = kind.tensor * kind.context * kind.stages * kind.data;
      l.recompute = kind.recompute;
      l.distributed = kind.data > 1;
      l.per_token_loss = kind.per_token_loss;
      l.parallel.tensor_model_parallel_size = kind.tensor;
      l.parallel.sequence_parallel = kind.sequence || (kind.tensor > 1 && style == Style::latent);
      l.parallel.context_parallel_size = kind.context;
      l.parallel.pipeline_model_parallel_size = kind.stages;
    }
  return all;
}

class FurtherLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, FurtherLayouts, in_this_run(further_layouts()), name_of_layout);

TEST_P(FurtherLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
