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
                        std::optional<std::int64_t> last, int ranks = 1) {
    TrainOptions o = options(name);
    o.save_interval = 1;
    o.save_retain_interval = retain;
    o.keep_last = last;
    o.ranks = ranks;
    o.optimizer.use_distributed_optimizer = ranks > 1;  // every rank writes
    train_with(o);
    for (const auto& entry : fs::directory_iterator(o.save))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    return list_checkpoints(o.save);
  };
  EXPECT_EQ(kept("retain", 4, {}), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(kept("last", {}, 3), (std::vector<std::int64_t>{8, 9, 10}));
  EXPECT_EQ(kept("both", 4, 2), (std::vector<std::int64_t>{4, 8, 9, 10}));
  EXPECT_EQ(kept("ranks", 4, 2, 4), (std::vector<std::int64_t>{4, 8, 9, 10}));
}

// The lasting ones are where they always are; each of the others replaces the one before.
TEST_F(CheckpointTraining, NonPersistent) {
  TrainOptions o = options("whole");
  o.save_interval = 4;
  o.non_persistent_save_interval = 2;
  o.non_persistent_ckpt_type = "global";
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.save), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(list_checkpoints(path("whole/non_persistent")), std::vector<std::int64_t>{10});
  EXPECT_EQ(events("whole", "save").size(), 6U);  // 2, 4, 6, 8, and 10 as both
  EXPECT_TRUE(contents_below(iteration_folder(path("whole/non_persistent"), 10)) ==
              contents_below(iteration_folder(o.save, 10)));
  o.save = path("elsewhere");
  o.train_iters = 7;
  o.non_persistent_global_ckpt_dir = path("temporary");
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.save), (std::vector<std::int64_t>{4, 7}));
  EXPECT_EQ(list_checkpoints(path("temporary")), std::vector<std::int64_t>{6});
}

// Which of a lasting checkpoint, of iteration 4, and another is gone on from.
TEST_F(CheckpointTraining, GoesOnFromTheNewerOfBothKinds) {
  TrainOptions o = options("whole");
  o.save_interval = 2;
  train_with(o);
  const auto resumed = [&](const std::string& name, int lasting, int passing, const char* type,
                           std::optional<std::int64_t> step = {}) {
    TrainOptions next = o;
    next.save = next.load = path(name);
    if (lasting > 0) copy_of("whole", lasting, name);
    if (passing > 0) copy_of("whole", passing, name + "/non_persistent");
    next.non_persistent_ckpt_type = type;
    next.ckpt_step = step;
    train_with(next);
    expect_same_files(iteration_folder(next.save, 10), iteration_folder(o.save, 10));
    return losses(name).size();
  };
  EXPECT_EQ(resumed("newer", 4, 8, "global"), 2U);
  EXPECT_EQ(resumed("older", 8, 4, "global"), 2U);
  EXPECT_EQ(resumed("alone", 0, 8, "global"), 2U);
  EXPECT_EQ(resumed("not-asked", 4, 8, ""), 6U);
  EXPECT_EQ(resumed("another", 4, 8, "global", 4), 6U);
  // Nothing is left to train, and what is there becomes a lasting one.
  EXPECT_EQ(resumed("end", 4, 10, "global"), 0U);
}

TEST_F(CheckpointTraining, NonPersistentNeeds) {
  const auto error = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions o = options("run");
    o.load = o.save;
    o.non_persistent_ckpt_type = "global";
    change(o);
    return error_of([&] { train_with(o); });
  };
  EXPECT_EQ(error([](TrainOptions& o) {
              o.save.clear();
              o.non_persistent_save_interval = 2;
            }),
            "64 --non-persistent-save-interval: needs --save");
  EXPECT_EQ(error([](TrainOptions& o) {
              o.non_persistent_ckpt_type.clear();
              o.non_persistent_save_interval = 2;
            }),
            "64 --non-persistent-save-interval: needs --non-persistent-ckpt-type global");
  EXPECT_EQ(error([](TrainOptions& o) {
              o.non_persistent_ckpt_type.clear();
              o.non_persistent_global_ckpt_dir = "dir";
            }),
            "64 --non-persistent-global-ckpt-dir: needs --non-persistent-ckpt-type global");
  fs::create_directories(path("run/non_persistent"));
  write_file_atomically(path("run/non_persistent/latest_checkpointed_iteration.txt"), "release",
                        false);
  EXPECT_EQ(error([](TrainOptions&) {}), concat("65 ", path("run/non_persistent"),
                                                ": a release, expected checkpoints of a run"));
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
  EXPECT_EQ(contents_below(o.save).size(), 1U);  // run.jsonl
}

}  // namespace
}  // namespace mt
