// Latent attention in layouts of each kind, and of several, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct LatentKind {
  int tensor = 1, context = 1, stages = 1, data = 1;
  bool sequence = false;
  const char* comm = "p2p";
  const char* recompute = "";
};

const std::vector<LatentKind> kLatentKinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true, .recompute = "mla_up_proj"},
    {.tensor = 4, .sequence = true, .recompute = "full"},
    {.context = 2},
    {.context = 2, .comm = "a2a", .recompute = "mla_up_proj"},
    {.context = 2, .comm = "all_gather"},
    {.stages = 2, .recompute = "core_attn"},
    {.data = 2, .recompute = "mla_up_proj"},
    {.tensor = 2, .context = 2, .sequence = true, .recompute = "layernorm"},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.tensor = 2, .data = 2, .sequence = true},
    {.context = 2, .stages = 2, .recompute = "full"},
    {.tensor = 2, .context = 2, .stages = 2, .data = 1, .sequence = true},
};

std::vector<TrainedLayout> latent_layouts() {
  std::vector<TrainedLayout> all;
  for (const bool of_queries : {true, false})
    for (const LatentKind& kind : kLatentKinds) {
      TrainedLayout& l = all.emplace_back();
      l.style = Style::latent;
      l.tied = of_queries;
      l.ranks = kind.tensor * kind.context * kind.stages * kind.data;
      l.recompute = kind.recompute;
      l.distributed = kind.data > 1;
      l.parallel.tensor_model_parallel_size = kind.tensor;
      // Experts that ranks share the matrices of need it.
      l.parallel.sequence_parallel = kind.sequence || (kind.tensor > 1 && !of_queries);
      l.parallel.context_parallel_size = kind.context;
      l.parallel.cp_comm_type = {kind.comm};
      l.parallel.pipeline_model_parallel_size = kind.stages;
    }
  return all;
}

class LatentLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, LatentLayouts, in_this_run(latent_layouts()), name_of_layout);

TEST_P(LatentLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
