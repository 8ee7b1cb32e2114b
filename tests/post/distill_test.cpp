// Whole runs of distill: layouts, and what becomes of a teacher's rows.
#include <filesystem>

#include "base/error.h"
#include "post/distillation/distillation.h"
#include "tests/post/sft_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

struct DistillLayout {
  const char* name;
  int ranks = 1, tensor = 1, pipeline = 1, context = 1;
  const char* sharding = "no_shard";
  bool shares_rows = false;
  std::int64_t teachers_layers = 3;
  bool ties = false, adapts = false;
};

class DistillRun : public SftRun {
 protected:
  // A folder of a model with so many layers, trained for a step.
  std::string teacher(std::int64_t layers, bool ties) const {
    const std::string name = concat("teacher", layers, ties);
    if (fs::exists(path(name))) return path(name);
    SftOptions o = options(name);
    o.model.num_layers = layers;
    o.model.untie_embeddings_and_output_weights = !ties;
    o.run.length.train_iters = 1;
    o.run.seed = 5;
    train_with(o);
    return path(name);
  }

  DistillOptions distill(std::int64_t layers = 3, bool ties = false,
                         const std::string& save = "") const {
    DistillOptions o;
    static_cast<FinetuneOptions&>(o) = options(save);
    o.teacher = teacher(layers, ties);
    o.loss = "jsd";
    o.temperature = 1.5;
    o.lm_loss_weight = 0.5;
    o.hidden_loss = "cosine";
    return o;
  }
};

class DistillLayouts : public DistillRun, public testing::WithParamInterface<DistillLayout> {};

INSTANTIATE_TEST_SUITE_P(
    All, DistillLayouts,
    testing::Values(
        DistillLayout{.name = "tp2", .ranks = 2, .tensor = 2},
        DistillLayout{.name = "tp2_rows_adapters",
                      .ranks = 2,
                      .tensor = 2,
                      .shares_rows = true,
                      .adapts = true},
        DistillLayout{.name = "pp2_tied", .ranks = 2, .pipeline = 2, .ties = true},
        DistillLayout{.name = "pp2_one_layer", .ranks = 2, .pipeline = 2, .teachers_layers = 1},
        DistillLayout{
            .name = "cp2_dp2_sharded", .ranks = 4, .context = 2, .sharding = "optim_grads_params"},
        DistillLayout{.name = "tp2_pp2_dp2",
                      .ranks = 8,
                      .tensor = 2,
                      .pipeline = 2,
                      .sharding = "optim_grads_params",
                      .shares_rows = true}),
    [](const auto& layout) { return layout.param.name; });

TEST_P(DistillLayouts, AsOneRank) {
  const auto with = [&](const DistillLayout& layout) {
    DistillOptions o = distill(GetParam().teachers_layers, GetParam().ties);
    o.run.compute.dtype = "fp64";
    if (GetParam().adapts) {
      o.model.lora_rank = 4;
      o.check_layout = true;
    }
    o.run.optimizer.use_distributed_optimizer = layout.ranks > layout.tensor * layout.pipeline;
    o.run.optimizer.sharding_strategy = layout.sharding;
    o.run.ranks.count = layout.ranks;
    ParallelOptions& parallel = o.run.ranks.parallel;
    parallel.tensor_model_parallel_size = layout.tensor;
    parallel.pipeline_model_parallel_size = layout.pipeline;
    parallel.context_parallel_size = layout.context;
    parallel.sequence_parallel = layout.shares_rows;
    const auto task = open_distillation(o, quiet());
    task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, true), o.run.seed,
                o.run.batch, quiet());
    return run_layout(o.run, *task, 3);
  };
  const LayoutDifference difference = largest_difference(with(GetParam()), with({.name = "one"}));
  EXPECT_LT(difference.value, 1e-9) << difference.where;
}

// The run that ended and went on has the bits of the one that did not; what it saves has no rows of
// the teacher, which are read again.
TEST_F(DistillRun, GoesOnToTheBit) {
  const auto train_into = [&](const std::string& save, std::optional<std::int64_t> exit) {
    DistillOptions o = distill(3, false, save);
    o.run.checkpoint.load = o.run.checkpoint.save;
    o.run.length.train_iters = 4;
    o.run.length.exit_interval = exit;
    Signals signals;
    const auto task = open_distillation(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  };
  train_into("whole", {});
  train_into("parts", 2);
  train_into("parts", {});
  int compared = 0;
  for (const auto& file : fs::directory_iterator(path("whole/iter_0000004"))) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".distcp") && name != ".metadata") continue;
    const std::string content = read_file(file.path().string());
    EXPECT_EQ(content.find("teacher."), std::string::npos) << name;
    if (name == ".metadata") continue;
    EXPECT_TRUE(read_file(path("parts/iter_0000004/") + name) == content) << name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST_F(DistillRun, RefusesOthersTeachers) {
  const auto expect = [&](const char* part, auto&& change) {
    DistillOptions o = distill();
    change(o);
    try {
      open_distillation(o, quiet());
      FAIL() << "nothing was thrown: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect("--teacher: required", [](DistillOptions& o) { o.teacher.clear(); });
  expect("has a hidden size of 32, and the model 64: --hidden-loss compares equal ones",
         [](DistillOptions& o) { o.model.hidden_size = 64; });
  expect("--seq-length 32: larger than --max-position-embeddings 16",
         [](DistillOptions& o) { o.seq_length = o.model.max_position_embeddings = 32; });
}

}  // namespace
}  // namespace mt
