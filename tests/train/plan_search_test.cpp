// Which layouts are proposed.
#include "train/plan/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/small_plan.h"

namespace mt {
namespace {

PretrainOptions searched() {
  PretrainOptions o = small_model();
  o.run.batch.micro_batch_size = 0;
  o.run.batch.global_batch_size = 8;
  o.plan.machine.memory = 8;
  return o;
}

PlanSearch search_of(PretrainOptions o, int gpus) {
  o.plan.search = gpus;
  return search_plans(o.run, Pretraining(o.model, o.data), o.plan,
                      Log({.level = Log::Level::quiet}));
}

TEST(PlanSearch, TheFirstIsFastestAndAllFit) {
  const PlanSearch search = search_of(searched(), 4);
  ASSERT_GT(search.fitting.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(search.fitting, {}, &Proposal::seconds));
  for (const Proposal& p : search.fitting) {
    EXPECT_EQ(p.layout.tp * p.layout.cp * p.layout.pp * p.layout.dp, 4);
    EXPECT_LE(p.bytes, std::size_t{8} << 30);
  }
  const std::string text = search_text(search);
  EXPECT_TRUE(text.starts_with(concat("4 x h200: ", search.fitting.size(), " layouts fit\n")));
  EXPECT_NE(text.find(concat("the first: ", search.fitting.front().layout.options())), text.npos);
}

// A layout's plan is that of the run with its options.
TEST(PlanSearch, ProposesWhatThePlanSays) {
  const PlanSearch search = search_of(searched(), 8);
  const auto pipeline = std::ranges::find_if(search.fitting, [](const Proposal& p) {
    return p.layout.tp == 2 && p.layout.pp == 2 && p.layout.chunks == 2 &&
           p.layout.sharding == "optim";
  });
  ASSERT_NE(pipeline, search.fitting.end());
  PretrainOptions o = searched();
  o.run.ranks.count = 8;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.ranks.parallel.sequence_parallel = true;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  o.run.ranks.pipeline.virtual_stages_per_rank = 2;
  o.run.batch.micro_batch_size = pipeline->layout.micro_batch;
  o.run.optimizer.use_distributed_optimizer = o.run.optimizer.overlap_grad_reduce =
      o.run.optimizer.overlap_param_gather = true;
  if (pipeline->layout.recomputes)
    o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  const Plan plan = plan_of(o);
  EXPECT_EQ(plan.fullest().memory.total(), pipeline->bytes);
  EXPECT_DOUBLE_EQ(plan.times->seconds, pipeline->seconds);
  EXPECT_NE(pipeline->layout.options().find("--num-virtual-stages-per-pipeline-rank 2 "),
            std::string::npos);
}

TEST(PlanSearch, SaysWhatIsTooLarge) {
  PretrainOptions o = searched();
  o.plan.machine.memory = 0.003;
  const PlanSearch search = search_of(o, 4);
  const auto fitting = std::ssize(search.fitting);
  EXPECT_LT(fitting, std::ssize(search_of(searched(), 4).fitting));
  for (const Proposal& p : search.fitting) EXPECT_LE(p.bytes, search.machine.memory);
  EXPECT_NE(search_text(search).find(" layouts: more memory than 97% of a GPU's 3 MiB\n"),
            std::string::npos);
}

TEST(PlanSearch, KeepsWhatTheOptionsSay) {
  PretrainOptions o = searched();
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.batch.micro_batch_size = 2;
  o.run.optimizer.sharding_strategy = "optim";
  o.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  const PlanSearch search = search_of(o, 4);
  ASSERT_FALSE(search.fitting.empty());
  for (const Proposal& p : search.fitting) {
    EXPECT_EQ(p.layout.tp, 2);
    EXPECT_EQ(p.layout.micro_batch, 2);
    EXPECT_EQ(p.layout.sharding, "optim");
    EXPECT_FALSE(p.layout.recomputes);  // more than is asked for
  }
  o = searched();
  o.run.batch.micro_batch_size = 1;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  o.run.ranks.pipeline.virtual_stages_per_rank = 2;
  o.run.optimizer.sharding_strategy = "optim_grads";
  const PlanSearch other = search_of(o, 4);
  ASSERT_FALSE(other.fitting.empty());
  for (const Proposal& p : other.fitting) {
    EXPECT_EQ(p.layout.pp, 2);
    EXPECT_EQ(p.layout.chunks, 2);
    EXPECT_EQ(p.layout.micro_batch, 1);
    EXPECT_EQ(p.layout.sharding, "optim_grads");
  }
  o.run.ranks.parallel.tensor_model_parallel_size = 3;
  EXPECT_NE(search_text(search_of(o, 4)).find("do not divide the GPUs"), std::string::npos);
}

TEST(PlanSearch, LeavesOutWhatTheOptionsExclude) {
  PretrainOptions o = searched();
  o.run.ranks.pipeline.schedule = "zero-bubble";
  const PlanSearch search = search_of(o, 4);
  ASSERT_FALSE(search.fitting.empty());
  for (const Proposal& p : search.fitting) EXPECT_EQ(p.layout.chunks, 1);
  EXPECT_NE(search_text(search).find(" layouts: --pipeline-schedule zero-bubble: not with virtual "
                                     "stages\n"),
            std::string::npos);
  o.run.ranks.pipeline.schedule = "1f1b";
  o.run.optimizer.ddp_bucket_size = 1 << 20;
  o.run.optimizer.ddp_num_buckets = 2;
  EXPECT_THROW(search_of(o, 4), Error);  // in no layout
}

TEST(PlanSearch, TriesOneTensorRankBesideThoseThatOverlap) {
  PretrainOptions o = searched();
  o.run.ranks.parallel.tp_comm_overlap = true;
  const PlanSearch search = search_of(o, 4);
  for (const int tp : {1, 2})
    EXPECT_TRUE(std::ranges::count(search.fitting, tp, [](const Proposal& p) {
      return p.layout.tp;
    })) << tp;
}

TEST(PlanSearch, NeedsAGlobalBatch) {
  PretrainOptions o = searched();
  o.run.batch.global_batch_size.reset();
  EXPECT_THROW(search_of(o, 8), Error);
}

}  // namespace
}  // namespace mt
