// Ranks that share experts, beside all other ways to share the work, against one rank.
#include "tests/train/expert_kind.h"

namespace mt {
namespace {

const std::vector<ExpertKind> kExpertKinds{
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
    {.context = 2, .data = 2, .experts = 2},
    {.context = 2, .data = 2, .experts = 4},
    {.tensor = 2, .context = 2, .experts = 2},
    {.stages = 2, .data = 2, .experts = 2},
    {.tensor = 2, .stages = 2, .data = 2, .experts = 2},
    {.tensor = 2, .stages = 2, .experts = 2, .expert_tensor = 1},
    {.context = 2, .stages = 2, .data = 2, .experts = 4},
    {.tensor = 2, .context = 2, .stages = 2, .experts = 4, .expert_tensor = 1},
    {.stages = 2, .data = 2, .experts = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 4, .experts = 2, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .experts = 2, .pipeline = {.virtual_stages_per_rank = 2}},
};

std::vector<TrainedLayout> expert_layouts() {
  std::vector<TrainedLayout> all;
  const std::vector<std::string> again{"", "full", "core_attn", "layernorm", "moe_act"};
  std::size_t turn = 0;  // which recomputation is next
  for (const char* dispatcher : {"allgather", "alltoall"})
    for (const ExpertKind& kind : kExpertKinds) {
      TrainedLayout layout{.style = Style::experts,
                           .tied = turn % 2 == 0,
                           .ranks = kind.ranks(),
                           .parallel = kind.parallel(),
                           .pipeline = kind.pipeline,
                           .num_layers = kind.stages == 2 ? 4 : 2,
                           .recompute = again[turn % again.size()],
                           .distributed = kind.data > 1 && turn % 3 > 0};
      ++turn;
      layout.parallel.moe_token_dispatcher_type = dispatcher;
      all.push_back(layout);
      if (kind.tensor == 1 && kind.context == 1) {  // one rank has the same tokens at a time
        all.push_back(layout);
        all.back().capacity = true;
      }
      layout.dtype = DType::f32;
      all.push_back(layout);
      // Ranks that have copies of experts keep parts of them, or of their gradients.
      const int ranks = kind.data * kind.context * kind.tensor,
                of_experts = kind.experts * kind.expert_tensor.value_or(kind.tensor);
      if (ranks == of_experts || kind.data * kind.context == 1) continue;
      layout.dtype = DType::f64;
      layout.distributed = false;
      layout.sharding = turn % 2 == 0 ? "optim_grads" : "optim_grads_params";
      all.push_back(layout);
    }
  return all;
}

class ExpertLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, ExpertLayouts, in_this_run(expert_layouts()), name_of_layout);

TEST_P(ExpertLayouts, AsOneRank) { expect_as_one_rank(); }

// Routers in fp64 of a run in fp32, and experts without gates, with biases and without.
TEST_F(ExpertLayouts, OfWideRoutersAndOfExpertsWithoutGates) {
  using Change = void (*)(ModelConfig&);
  const Change wide = [](ModelConfig& c) { c.moe_router_dtype = "fp64"; };
  const Change gelu = [](ModelConfig& c) { c.swiglu = false; };
  const Change squared = [](ModelConfig& c) {
    c.swiglu = false;
    c.squared_relu = true;
  };
  const Change biased = [](ModelConfig& c) {
    c.swiglu = c.moe_shared_expert_gate = false;
    c.moe_shared_expert_intermediate_size = 0;
    c.add_bias_linear = true;
  };
  for (const Change change : {wide, gelu, squared, biased}) {
    const auto run_so = [&](TrainedLayout layout) {
      if (change == wide) layout.dtype = DType::f32;
      PretrainOptions o = options_of(layout);
      change(o.model);
      LayoutRun ran = run(o);
      if (change == wide) {  // as in expect_as_one_rank()
        ran.weights = {};
        ran.steps.resize(1);
      }
      return ran;
    };
    TrainedLayout one{.style = Style::experts}, shared = one, split = one;
    shared.ranks = split.ranks = 2;
    shared.parallel.expert_model_parallel_size = 2;
    shared.distributed = true;
    split.parallel.tensor_model_parallel_size = 2;
    split.parallel.sequence_parallel = true;
    if (change == biased) split.parallel.expert_tensor_parallel_size = 1;
    const LayoutRun expected = run_so(one);
    for (const TrainedLayout& layout : {shared, split}) {
      const LayoutDifference worst = largest_difference(run_so(layout), expected);
      EXPECT_LE(worst.value, change == wide ? 1e-5 : 1e-9) << worst.where << " " << layout.name();
    }
  }
}

// Of two experts no token goes to one now and then, where there are four.
TEST_F(ExpertLayouts, RanksWithoutTokensTakeTheirTurns) {
  const auto run_few = [&](const TrainedLayout& layout, bool overlaps) {
    PretrainOptions o = options_of(layout);
    o.run.batch.micro_batch_size = 1;
    o.run.optimizer.overlap_grad_reduce = overlaps;
    o.model.num_experts = 2;
    o.model.moe_router_topk = 1;
    o.model.moe_router_pre_softmax = true;
    return run(o);
  };
  const TrainedLayout one{.style = Style::experts, .seq_length = 2};
  const LayoutRun expected = run_few(one, false);
  for (const char* strategy : {"optim_grads", "optim_grads_params"})
    for (const char* dispatcher : {"allgather", "alltoall"})
      for (const bool overlaps : {false, true}) {
        TrainedLayout layout = one;
        layout.ranks = 4;
        layout.parallel.expert_model_parallel_size = 2;
        layout.parallel.moe_token_dispatcher_type = dispatcher;
        layout.sharding = strategy;
        const LayoutDifference worst = largest_difference(run_few(layout, overlaps), expected);
        EXPECT_LE(worst.value, 1e-9) << worst.where << " " << layout.name();
      }
}

// --- Losses over all micro-batches of a step ----------------------------------------------------

std::vector<TrainedLayout> layouts_of_whole_steps() {
  std::vector<TrainedLayout> all(4, {.style = Style::experts, .tied = false, .ranks = 2});
  all[0].ranks = 1;
  all[0].recompute = "full";
  all[1].parallel.tensor_model_parallel_size = 2;
  all[1].parallel.sequence_parallel = true;
  all[2].parallel.context_parallel_size = 2;
  all[2].recompute = "full";
  all[3].parallel.pipeline_model_parallel_size = 2;
  all[3].pipeline.schedule = "zero-bubble";
  return all;
}

class WholeSteps : public Layouts {
 protected:
  // Of steps that have so many micro-batches on each rank.
  LayoutRun run_balanced(const TrainedLayout& layout, int micro_batch, int micro_batches,
                         const std::vector<std::string>& types,
                         const std::vector<double>& weights) const {
    PretrainOptions o = options_of(layout);
    o.run.batch.micro_batch_size = micro_batch;
    o.run.batch.global_batch_size =
        micro_batch * micro_batches * layout.ranks /
        (layout.parallel.tensor_model_parallel_size * layout.parallel.context_parallel_size *
         layout.parallel.pipeline_model_parallel_size);
    o.data.eod_mask_loss = false;  // micro-batches weigh as much as their tokens
    o.model.moe_router_load_balancing_type = types;
    o.model.moe_aux_loss_coeff = weights;
    return run(o);
  }
  static constexpr const char* kGlobal = "global_aux_loss";
};
INSTANTIATE_TEST_SUITE_P(All, WholeSteps, testing::ValuesIn(layouts_of_whole_steps()),
                         name_of_layout);

TEST_P(WholeSteps, BalanceAsOnOneRank) {
  const std::vector<std::string> types{"seq_aux_loss", kGlobal, "aux_loss"};
  const std::vector<double> weights{0.05, 0.2, 0.1};
  const TrainedLayout one{.style = Style::experts, .tied = false};
  const LayoutRun got = run_balanced(GetParam(), 2, 3, types, weights);
  const LayoutDifference worst = largest_difference(got, run_balanced(one, 2, 3, types, weights));
  EXPECT_LE(worst.value, 1e-9) << worst.where;
}

// One micro-batch of two ranks is one of both, by which their loss weighs half.
TEST_F(WholeSteps, AreThoseOfAllDataParallelRanks) {
  const TrainedLayout one{.style = Style::experts, .tied = false};
  TrainedLayout two = one;
  two.ranks = 2;
  const LayoutRun global = run_balanced(two, 2, 1, {kGlobal}, {0.3}),
                  whole = run_balanced(one, 4, 1, {"aux_loss"}, {0.15}),
                  own = run_balanced(two, 2, 1, {"aux_loss"}, {0.15});
  const LayoutDifference worst = largest_difference(global, whole);
  EXPECT_LE(worst.value, 1e-9) << worst.where;
  EXPECT_GT(largest_difference(own, whole).value, 1e-6);
}

// A later micro-batch counts those before it.
TEST_F(WholeSteps, CountMicroBatchesSoFar) {
  const TrainedLayout one{.style = Style::experts, .tied = false};
  EXPECT_EQ(largest_difference(run_balanced(one, 2, 1, {kGlobal}, {0.3}),
                               run_balanced(one, 2, 1, {"aux_loss"}, {0.3}))
                .value,
            0);
  EXPECT_GT(largest_difference(run_balanced(one, 2, 2, {kGlobal}, {0.3}),
                               run_balanced(one, 2, 2, {"aux_loss"}, {0.3}))
                .value,
            1e-6);
}

}  // namespace
}  // namespace mt
