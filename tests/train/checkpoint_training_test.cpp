// Which checkpoints training runs write, keep and go on from, and which they refuse.
#include "tests/train/training_run.h"

namespace mt {
namespace {

using CheckpointTraining = Training;

// Weights alone: iteration, samples, optimizer and schedule begin anew.
TEST_F(CheckpointTraining, Finetune) {
  train_with(options("base"));
  TrainOptions o = options("tuned");
  o.load = path("base");
  o.finetune = true;
  o.train_iters = 1;
  o.schedule.warmup_iters = 0;
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.save), std::vector<std::int64_t>{1});
  TrainOptions from = options("from");  // the same, until there is something to go on from
  from.load = from.save;
  from.pretrained_checkpoint = path("base");
  from.train_iters = 1;
  from.schedule.warmup_iters = 0;
  train_with(from);
  expect_same_files(iteration_folder(from.save, 1), iteration_folder(o.save, 1));
  from.train_iters = 2;
  from.schedule.override_checkpoint = true;
  train_with(from);
  EXPECT_EQ(list_checkpoints(from.save), (std::vector<std::int64_t>{1, 2}));
  EXPECT_NE(losses("from")[0], losses("base")[0]);
}

TEST_F(CheckpointTraining, WhichCheckpointIsLoaded) {
  TrainOptions o = options("run");
  o.save_interval = 5;
  train_with(o);
  TrainOptions again = options("again");
  again.load = o.save;
  again.ckpt_step = 5;
  train_with(again);
  expect_same_files(iteration_folder(again.save, 10), iteration_folder(o.save, 10));
  again.ckpt_step = 6;
  EXPECT_EQ(error_of([&] { train_with(again); }),
            concat("66 ", iteration_folder(o.save, 6), ": does not exist, but was asked for"));
  again.ckpt_step.reset();
  again.load = path("none");
  again.exit_on_missing_checkpoint = true;
  EXPECT_EQ(error_of([&] { train_with(again); }),
            concat("66 ", path("none"),
                   ": no checkpoint there, and --exit-on-missing-checkpoint is given"));
}

TEST_F(CheckpointTraining, OldCheckpointsAreDeleted) {
  const auto kept = [&](const char* name, std::optional<std::int64_t> retain,
                        std::optional<std::int64_t> last) {
    TrainOptions o = options(name);
    o.save_interval = 1;
    o.save_retain_interval = retain;
    o.keep_last = last;
    train_with(o);
    return list_checkpoints(o.save);
  };
  EXPECT_EQ(kept("retain", 4, {}), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(kept("last", {}, 3), (std::vector<std::int64_t>{8, 9, 10}));
  EXPECT_EQ(kept("both", 4, 2), (std::vector<std::int64_t>{4, 8, 9, 10}));
  for (const char* name : {"retain", "last", "both"})
    for (const auto& entry : fs::directory_iterator(path(name)))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
}

TEST_F(CheckpointTraining, WhatDoesNotFitTheCheckpoint) {
  TrainOptions o = options("run");
  train_with(o);
  o.load = o.save;
  o.train_iters = 12;
  TrainOptions wide = o;
  wide.model.hidden_size = 32;
  EXPECT_EQ(error_of([&] { train_with(wide); }),
            concat("78 ", iteration_folder(o.save, 10),
                   ": --hidden-size is 16 in the checkpoint and 32 here"));
  TrainOptions no_optimizer = options("bare");
  no_optimizer.save_optimizer = false;
  train_with(no_optimizer);
  no_optimizer.load = no_optimizer.save;
  no_optimizer.train_iters = 12;
  EXPECT_EQ(error_of([&] { train_with(no_optimizer); }),
            concat("65 ", iteration_folder(no_optimizer.save, 10),
                   ": common.pt: no optimizer state; --no-load-optim starts with a fresh one"));
  no_optimizer.load_optimizer = false;
  train_with(no_optimizer);
}

// Settings that change what the stored weights mean.
TEST_F(CheckpointTraining, AnotherModelThanTheCheckpoints) {
  TrainOptions o = options("run");
  train_with(o);
  o.load = o.save;
  const auto refusal = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions other = o;
    change(other);
    return error_of([&] { train_with(other); });
  };
  const std::string where = concat("78 ", iteration_folder(o.save, 10), ": ");
  EXPECT_EQ(refusal([](TrainOptions& t) { t.model.add_bias_linear = false; }),
            where + "--disable-bias-linear is off in the checkpoint and on here");
  EXPECT_EQ(refusal([](TrainOptions& t) { t.model.bias_gelu_fusion = false; }),
            where + "GeLU in its tanh form is on in the checkpoint and off here");
  EXPECT_EQ(refusal([](TrainOptions& t) { t.model.untie_embeddings_and_output_weights = true; }),
            where + "--untie-embeddings-and-output-weights is off in the checkpoint and on here");
  EXPECT_EQ(refusal([](TrainOptions& t) { t.model.max_position_embeddings = 20; }),
            where + "--max-position-embeddings is 16 in the checkpoint and 20 here");
  EXPECT_EQ(
      refusal([](TrainOptions& t) { t.model.position_embedding_type = "none"; }),
      where + "--position-embedding-type is learned_absolute in the checkpoint and none here");
}

// A checkpoint's own folder can be named too, and its iteration is where the run goes on.
TEST_F(CheckpointTraining, LoadsOneCheckpointOfSeveral) {
  TrainOptions o = options("whole");
  o.save_interval = 5;
  train_with(o);
  o.load = iteration_folder(o.save, 5) + "/";
  o.save = path("again");
  train_with(o);
  expect_same_files(iteration_folder(path("again"), 10), iteration_folder(path("whole"), 10));
}

// Fewer validation samples than were consumed before begin again at the first.
TEST_F(CheckpointTraining, ResumesWithOtherEvaluations) {
  TrainOptions o = options("run");
  o.eval_iters = 5;
  o.eval_interval = 1;
  train_with(o);
  o.load = o.save;
  o.eval_iters = 1;
  o.eval_interval = 1000;
  o.train_iters = 12;
  o.schedule.override_checkpoint = true;
  train_with(o);
  EXPECT_EQ(losses("run", "eval").size(), 10 + 2 + 2U);
}

TEST_F(CheckpointTraining, WeightsThatAreNotFiniteAreNotSaved) {
  TrainOptions o = options("run");
  o.train_iters = 1;
  o.schedule.warmup_iters = 0;
  o.schedule.lr = 1e300;
  EXPECT_EQ(error_of([&] { train_with(o); }),
            "1 iteration 1: weights are not finite; nothing was saved");
  EXPECT_EQ(files_below(o.save).size(), 1U);  // run.jsonl
}

}  // namespace
}  // namespace mt
