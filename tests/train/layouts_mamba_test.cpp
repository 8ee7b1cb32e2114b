// Hybrids of Mamba layers and others, and models with the gated delta rule, in all layouts that
// they have, against one rank.
#include "tests/train/layouts.h"

namespace mt {
namespace {

struct MambaKind {
  int tensor = 1, context = 1, stages = 1, data = 1;
  bool shares_rows = false;
  const char* comm = "p2p";  // of attention
  PipelineOptions pipeline = {};
};

const std::vector<MambaKind> kMambaKinds{
    {.tensor = 2},
    {.tensor = 2, .shares_rows = true},
    {.tensor = 4},
    {.tensor = 4, .shares_rows = true},
    {.data = 2},
    {.data = 4},
    {.tensor = 2, .data = 2},
    {.tensor = 2, .data = 2, .shares_rows = true},
    {.tensor = 2, .data = 4, .shares_rows = true},
    {.tensor = 4, .data = 2, .shares_rows = true},
    {.stages = 2},
    {.stages = 4},
    {.stages = 2, .data = 2},
    {.stages = 4, .data = 2},
    {.tensor = 2, .stages = 2},
    {.tensor = 2, .stages = 2, .shares_rows = true},
    {.tensor = 2, .stages = 4, .shares_rows = true},
    {.tensor = 4, .stages = 2, .shares_rows = true},
    {.tensor = 2, .stages = 2, .data = 2},
    {.tensor = 2, .stages = 2, .data = 2, .shares_rows = true},
    {.stages = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.stages = 2, .data = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.tensor = 2, .stages = 2, .shares_rows = true, .pipeline = {.virtual_stages_per_rank = 2}},
    {.stages = 2, .pipeline = {.schedule = "gpipe"}},
    {.stages = 2, .data = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 4, .pipeline = {.schedule = "zero-bubble"}},
    {.tensor = 2, .stages = 2, .shares_rows = true, .pipeline = {.schedule = "zero-bubble"}},
    {.context = 2},
    {.context = 2, .comm = "a2a"},
    {.context = 4},
    {.context = 4, .comm = "a2a"},
    {.context = 4, .comm = "all_gather"},
    {.context = 8, .comm = "a2a"},  // each group is of two ranks
    {.tensor = 2, .context = 2, .comm = "all_gather"},
    {.tensor = 2, .context = 2, .shares_rows = true},
    {.tensor = 2, .context = 2, .shares_rows = true, .comm = "a2a"},
    {.tensor = 2, .context = 4, .shares_rows = true},   // so, too
    {.tensor = 4, .context = 2, .comm = "all_gather"},  // so, too
    {.context = 2, .data = 2, .comm = "a2a"},
    {.context = 2, .data = 4},
    {.context = 4, .data = 2, .comm = "all_gather"},
    {.tensor = 2, .context = 2, .data = 2, .shares_rows = true},
    {.context = 2, .stages = 2},
    {.context = 2, .stages = 4, .comm = "all_gather"},
    {.context = 4, .stages = 2},
    {.context = 2, .stages = 2, .data = 2},
    {.tensor = 2, .context = 2, .stages = 2, .shares_rows = true},
    {.context = 2, .stages = 2, .comm = "a2a", .pipeline = {.virtual_stages_per_rank = 2}},
    {.context = 2, .stages = 2, .pipeline = {.schedule = "zero-bubble"}},
};

std::vector<TrainedLayout> hybrid_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "layernorm"};
  std::size_t turn = 0;  // which recomputation is next
  for (const bool documents : {false, true})
    for (const MambaKind& kind : kMambaKinds) {  // an odd number of them: each has both types
      TrainedLayout layout{.style = Style::hybrid,
                           .tied = turn / 2 % 2 == 0,
                           .dtype = turn % 2 == 0 ? DType::f64 : DType::f32,
                           .ranks = kind.tensor * kind.context * kind.stages * kind.data,
                           .pipeline = kind.pipeline,
                           .num_layers = kind.stages > 1 ? 4 : 2,
                           .recompute = again[turn / 2 % again.size()],
                           .distributed = kind.data > 1 && turn % 3 > 0,
                           .documents = documents};
      ++turn;
      layout.parallel.tensor_model_parallel_size = kind.tensor;
      layout.parallel.sequence_parallel = kind.shares_rows;
      layout.parallel.context_parallel_size = kind.context;
      layout.parallel.cp_comm_type = {kind.comm};
      layout.parallel.pipeline_model_parallel_size = kind.stages;
      all.push_back(layout);
    }
  return all;
}

class MambaLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, MambaLayouts, in_this_run(hybrid_layouts()), name_of_layout);

TEST_P(MambaLayouts, AsOneRank) { expect_as_one_rank(); }

// But for contexts, which the rule cannot share; with experts matrices are shared by rows.
std::vector<TrainedLayout> delta_layouts() {
  std::vector<TrainedLayout> all;
  for (TrainedLayout layout : hybrid_layouts()) {
    if (layout.parallel.context_parallel_size > 1) continue;
    layout.style = Style::delta;
    if (!layout.tied && layout.parallel.tensor_model_parallel_size > 1)
      layout.parallel.sequence_parallel = true;
    all.push_back(layout);
  }
  return all;
}

class DeltaLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, DeltaLayouts, in_this_run(delta_layouts()), name_of_layout);

TEST_P(DeltaLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
