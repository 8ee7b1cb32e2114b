// Whole runs in pipelines: they train as one rank does, and go on in any other layout.
#include "tests/train/training_run.h"
#include "train/plan/plan.h"

namespace mt {
namespace {

struct Pipeline {
  std::string name = {};
  int ranks = 1, stages = 1;  // the other ranks are data-parallel
  PipelineOptions options = {};
  bool distributed = false;  // the optimizer
};

const std::vector<Pipeline> kPipelines{
    {.name = "pp2", .ranks = 2, .stages = 2},
    {.name = "pp4-gpipe", .ranks = 4, .stages = 4, .options = {.schedule = "gpipe"}},
    {.name = "pp2-dp2", .ranks = 4, .stages = 2, .distributed = true},
    {.name = "pp4-zero-bubble",
     .ranks = 8,
     .stages = 4,
     .options = {.schedule = "zero-bubble"},
     .distributed = true},
    {.name = "pp2-chunks", .ranks = 2, .stages = 2, .options = {.layers_per_virtual_stage = 1}},
    {.name = "pp2-layout",
     .ranks = 4,
     .stages = 2,
     .options = {.layout = "E|ttt|t|L"},
     .distributed = true}};

class PipelineTraining : public Training {
 protected:
  PretrainOptions options_of(const Pipeline& pipeline, const std::string& save, bool tied) const {
    PretrainOptions o = options(save);
    o.model.num_layers = 4;
    o.model.untie_embeddings_and_output_weights = !tied;
    o.run.compute.dtype = "fp64";
    o.run.ranks.count = pipeline.ranks;
    o.run.ranks.parallel.pipeline_model_parallel_size = pipeline.stages;
    o.run.ranks.pipeline = pipeline.options;
    o.run.optimizer.use_distributed_optimizer = pipeline.distributed;
    o.run.optimizer.log_num_zeros_in_grad = true;
    o.run.report.log_params_norm = true;
    o.run.length.train_iters = 5;
    o.run.checkpoint.save_interval = 4;
    o.run.evaluation.eval_interval = 4;
    o.run.batch.global_batch_size = 16;
    return o;
  }

  std::vector<double> numbers(const std::string& save, const char* what) const {
    std::vector<double> values;
    simdjson::dom::parser parser;
    for (const std::string& line : events(save, "step"))
      values.push_back(double(parser.parse(line)[what]));
    return values;
  }

  void expect_same_run(const std::string& got, const std::string& expected) const {
    expect_near(losses(got), losses(expected), 1e-9);
    expect_near(losses(got, "eval"), losses(expected, "eval"), 1e-9);
    for (const char* what : {"grad_norm", "params_norm", "num_zeros"})
      expect_near(numbers(got, what), numbers(expected, what), 1e-9);
    expect_near_tensors(got, expected, 4, kMoment, 1e-9);
    expect_near_tensors(got, expected, 5, kWeights, 1e-9);
  }
};

TEST_F(PipelineTraining, AsOneRank) {
  for (const bool tied : {true, false}) {
    const auto train_as = [&](const Pipeline& pipeline, const std::string& save) {
      PretrainOptions o = options_of(pipeline, save, tied);
      // Without it gradients of keys' biases are 0 but for rounding, which makes some exactly 0.
      o.model.position_embedding_type = "rope";
      train_with(o);
    };
    const std::string one = tied ? "one-tied" : "one";
    train_as({.name = one}, one);
    for (const Pipeline& pipeline : kPipelines) {
      SCOPED_TRACE(concat(pipeline.name, tied ? ", tied" : ""));
      const std::string save = pipeline.name + (tied ? "-tied" : "");
      train_as(pipeline, save);
      expect_same_run(save, one);
    }
  }
}

// A run that ends after each step, and goes on in the next layout.
TEST_F(PipelineTraining, GoesOnInAnyOtherLayout) {
  const auto steps = static_cast<std::int64_t>(kPipelines.size());
  PretrainOptions one = options_of({.name = "one"}, "one", true);
  one.run.length.train_iters = steps;
  train_with(one);
  for (const Pipeline& pipeline : kPipelines) {
    PretrainOptions o = options_of(pipeline, "several", true);
    o.run.length.train_iters = steps;
    o.run.length.exit_interval = 1;
    o.run.checkpoint.load = o.run.checkpoint.save;
    train_with(o);
  }
  expect_near(losses("several"), losses("one"), 1e-9);
  expect_near_tensors("several", "one", static_cast<int>(steps), kWeights, 1e-9);
}

TEST_F(PipelineTraining, AResumedRunEndsWithTheSameBytes) {
  for (const Pipeline& pipeline : kPipelines) {
    SCOPED_TRACE(pipeline.name);
    PretrainOptions o = options_of(pipeline, pipeline.name, true);
    o.run.compute.dtype = "fp32";
    o.run.length.train_iters = 4;
    train_with(o);
    o.run.checkpoint.save = path(pipeline.name + "-resumed");
    o.run.length.exit_interval = 2;
    train_with(o);
    o.run.checkpoint.load = o.run.checkpoint.save;
    train_with(o);
    expect_same_files(iteration_folder(o.run.checkpoint.save, 4),
                      iteration_folder(path(pipeline.name), 4));
  }
}

// The second chunk of rank 1 has more in flight of five micro-batches in groups of three than of
// six.
TEST_F(PipelineTraining, RampsUp) {
  for (const bool pipeline : {false, true}) {
    PretrainOptions o =
        pipeline
            ? options_of({.ranks = 2,
                          .stages = 2,
                          .options = {.virtual_stages_per_rank = 2, .microbatch_group_size = 3}},
                         "several", true)
            : options_of({}, "one", true);
    o.run.length.train_iters = 0;
    o.run.length.train_samples = 44;
    o.run.batch.global_batch_size = 12;
    o.run.batch.rampup_batch_size = {10, 2, 20};
    o.run.schedule.warmup_iters = 0;
    train_with(o);
  }
  ASSERT_EQ(losses("one").size(), 4U);
  expect_near(losses("several"), losses("one"), 1e-9);
}

// Of every rank; together they have the model once.
TEST_F(PipelineTraining, Plans) {
  const auto plan_of = [&](const Pipeline& pipeline) {
    PretrainOptions o = options_of(pipeline, "run", true);
    o.model.vocab_size = 380;
    o.complete();
    return make_plan(o.run, Pretraining(o.model, o.data), o.plan);
  };
  const Plan one = plan_of({}), two = plan_of({.ranks = 4, .stages = 2});
  ASSERT_EQ(two.pipeline.size(), 2U);
  EXPECT_EQ(two.parameters, one.parameters);
  double flops = 0;
  std::size_t bytes = 0;
  for (const RankPlan& rank : two.pipeline) {
    flops += 2 * rank.step.flops;  // data-parallel ranks
    bytes += 2 * rank.memory.total();
    EXPECT_GT(rank.step.message_bytes, 0);
    EXPECT_LT(rank.memory.total(), one.fullest().memory.total());
  }
  EXPECT_NEAR(flops, one.fullest().step.flops, 0.01 * flops);
  EXPECT_EQ(two.total(), bytes);
  EXPECT_NE(plan_json(two).find("\"pipeline\":[{\"counted_flops\":"), std::string::npos);
  EXPECT_EQ(plan_json(one).find("\"pipeline\""), std::string::npos);

  PretrainOptions o = options_of({.ranks = 4, .stages = 2}, "run", true);
  o.model.vocab_size = 0;
  train_with(o);
  JsonWriter planned;
  two.pipeline[0].memory.write(planned);
  EXPECT_NE(events("run", "end").at(0).find(planned.text()), std::string::npos);
}

TEST_F(PipelineTraining, Refusals) {
  const auto refusal = [&](const Pipeline& pipeline) -> std::string {
    try {
      PretrainOptions o = options_of(pipeline, "", true);
      o.model.vocab_size = 380;
      o.complete();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.ranks = 3, .stages = 2}),
            "--ranks 3: world size (3) is not divisible by total_model_size (2)");
  EXPECT_EQ(refusal({.ranks = 3, .stages = 3}),
            "--pipeline-model-parallel-size 3: Number of layers should be divisible by the "
            "pipeline-model-parallel size");
  EXPECT_EQ(refusal({.ranks = 2,
                     .stages = 2,
                     .options = {.virtual_stages_per_rank = 2, .microbatch_group_size = 16}}),
            "The number of contiguous micro-batches in a virtual pipeline stage should range in "
            "[PP=2 , M=8]");
}

}  // namespace
}  // namespace mt
