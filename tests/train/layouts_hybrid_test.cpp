// Hybrids with experts as layers of their own, which may predict further tokens and whose pattern
// may say where stages begin, in all layouts that they have, against one rank.
#include "tests/train/expert_kind.h"

namespace mt {
namespace {

const std::vector<ExpertKind> kHybridKinds{
    {.tensor = 2},
    {.tensor = 4},
    {.data = 2, .experts = 2},
    {.data = 4, .experts = 4},
    {.tensor = 2, .experts = 2, .expert_tensor = 1},
    {.tensor = 2, .data = 2, .experts = 2},
    {.tensor = 4, .data = 2, .experts = 2, .expert_tensor = 2},
    {.stages = 2},
    {.stages = 4},
    {.stages = 2, .data = 2, .experts = 2},
    {.tensor = 2, .stages = 2, .data = 2, .experts = 2},
    {.stages = 2, .pipeline = {.segments = {1, 3}}},
    {.stages = 2, .pipeline = {.segments = {2, 0, 1, 1}}},
    {.tensor = 2, .stages = 2, .experts = 2, .expert_tensor = 1, .pipeline = {.segments = {3, 1}}},
    {.stages = 2, .data = 2, .experts = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.context = 2, .experts = 2},
    {.tensor = 2, .context = 2, .stages = 2, .experts = 4, .expert_tensor = 1},
    {.context = 2, .stages = 2, .data = 2, .experts = 2, .pipeline = {.segments = {1, 3}}},
};

std::vector<TrainedLayout> hybrid_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const bool tied : {true, false})
    for (const int further : {0, 2})
      for (const ExpertKind& kind : kHybridKinds) {
        TrainedLayout layout{.style = Style::mixture,
                             .tied = tied,
                             .ranks = kind.ranks(),
                             .parallel = kind.parallel(),
                             .pipeline = kind.pipeline,
                             .num_layers = kind.stages > 1 ? 4 : 2,
                             .recompute = again[turn % again.size()],
                             .distributed = kind.data > 1 && turn % 3 > 0,
                             .documents = turn % 2 == 1,
                             .further = further};
        ++turn;
        if (turn % 4 == 0) layout.parallel.moe_token_dispatcher_type = "alltoall";
        all.push_back(layout);
        if (tied || kind.data * kind.context == 1) continue;  // those that are not have biases
        layout.distributed = false;
        layout.sharding = "optim_grads_params";
        all.push_back(layout);
      }
  return all;
}

class HybridLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, HybridLayouts, in_this_run(hybrid_layouts()), name_of_layout);

TEST_P(HybridLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
