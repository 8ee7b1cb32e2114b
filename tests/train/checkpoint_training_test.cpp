// Which checkpoints training runs write, keep and go on from, and which they refuse.
#include "tests/train/training_run.h"

namespace mt {
namespace {

using CheckpointTraining = Training;
const std::string kWayOut = "; --use-checkpoint-args takes the checkpoint's";

// Weights alone: iteration, samples, optimizer and schedule begin anew.
TEST_F(CheckpointTraining, Finetune) {
  train_with(options("base"));
  PretrainOptions o = options("tuned");
  o.run.checkpoint.load = path("base");
  o.run.checkpoint.finetune = true;
  o.run.length.train_iters = 1;
  o.run.schedule.warmup_iters = 0;
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{1});
  PretrainOptions from = options("from");  // the same, until there is something to go on from
  from.run.checkpoint.load = from.run.checkpoint.save;
  from.run.checkpoint.pretrained_checkpoint = path("base");
  from.run.length.train_iters = 1;
  from.run.schedule.warmup_iters = 0;
  train_with(from);
  expect_same_files(iteration_folder(from.run.checkpoint.save, 1),
                    iteration_folder(o.run.checkpoint.save, 1));
  from.run.length.train_iters = 2;
  from.run.schedule.override_checkpoint = true;
  train_with(from);
  EXPECT_EQ(list_checkpoints(from.run.checkpoint.save), (std::vector<std::int64_t>{1, 2}));
  EXPECT_NE(losses("from")[0], losses("base")[0]);
}

TEST_F(CheckpointTraining, WhichCheckpointIsLoaded) {
  PretrainOptions o = options("run");
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  PretrainOptions again = options("again");
  again.run.checkpoint.load = o.run.checkpoint.save;
  again.run.checkpoint.ckpt_step = 5;
  train_with(again);
  expect_same_files(iteration_folder(again.run.checkpoint.save, 10),
                    iteration_folder(o.run.checkpoint.save, 10));
  again.run.checkpoint.ckpt_step = 6;
  EXPECT_EQ(error_of([&] { train_with(again); }),
            concat("66 ", iteration_folder(o.run.checkpoint.save, 6),
                   ": does not exist, but was asked for"));
  again.run.checkpoint.ckpt_step.reset();
  again.run.checkpoint.load = path("none");
  again.run.checkpoint.exit_on_missing_checkpoint = true;
  EXPECT_EQ(error_of([&] { train_with(again); }),
            concat("66 ", path("none"),
                   ": no checkpoint there, and --exit-on-missing-checkpoint is given"));
}

TEST_F(CheckpointTraining, OldCheckpointsAreDeleted) {
  const auto kept = [&](const char* name, std::optional<std::int64_t> retain,
                        std::optional<std::int64_t> last, int ranks = 1) {
    PretrainOptions o = options(name);
    o.run.checkpoint.save_interval = 1;
    o.run.checkpoint.save_retain_interval = retain;
    o.run.checkpoint.keep_last = last;
    o.run.ranks.count = ranks;
    o.run.optimizer.use_distributed_optimizer = ranks > 1;  // every rank writes
    train_with(o);
    for (const auto& entry : fs::directory_iterator(o.run.checkpoint.save))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    return list_checkpoints(o.run.checkpoint.save);
  };
  EXPECT_EQ(kept("retain", 4, {}), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(kept("last", {}, 3), (std::vector<std::int64_t>{8, 9, 10}));
  EXPECT_EQ(kept("both", 4, 2), (std::vector<std::int64_t>{4, 8, 9, 10}));
  EXPECT_EQ(kept("ranks", 4, 2, 4), (std::vector<std::int64_t>{4, 8, 9, 10}));
}

// The lasting ones are where they always are; each of the others replaces the one before.
TEST_F(CheckpointTraining, NonPersistent) {
  PretrainOptions o = options("whole");
  o.run.checkpoint.save_interval = 4;
  o.run.checkpoint.non_persistent_save_interval = 2;
  o.run.checkpoint.non_persistent_ckpt_type = "global";
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), (std::vector<std::int64_t>{4, 8, 10}));
  EXPECT_EQ(list_checkpoints(path("whole/non_persistent")), std::vector<std::int64_t>{10});
  EXPECT_EQ(events("whole", "save").size(), 6U);  // 2, 4, 6, 8, and 10 as both
  EXPECT_TRUE(contents_below(iteration_folder(path("whole/non_persistent"), 10)) ==
              contents_below(iteration_folder(o.run.checkpoint.save, 10)));
  o.run.checkpoint.save = path("elsewhere");
  o.run.length.train_iters = 7;
  o.run.checkpoint.non_persistent_global_ckpt_dir = path("temporary");
  train_with(o);
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), (std::vector<std::int64_t>{4, 7}));
  EXPECT_EQ(list_checkpoints(path("temporary")), std::vector<std::int64_t>{6});
}

// Which of a lasting checkpoint, of iteration 4, and another is gone on from.
TEST_F(CheckpointTraining, GoesOnFromTheNewerOfBothKinds) {
  PretrainOptions o = options("whole");
  o.run.checkpoint.save_interval = 2;
  train_with(o);
  const auto resumed = [&](const std::string& name, int lasting, int passing, const char* type,
                           std::optional<std::int64_t> step = {}) {
    PretrainOptions next = o;
    next.run.checkpoint.save = next.run.checkpoint.load = path(name);
    if (lasting > 0) copy_of("whole", lasting, name);
    if (passing > 0) copy_of("whole", passing, name + "/non_persistent");
    next.run.checkpoint.non_persistent_ckpt_type = type;
    next.run.checkpoint.ckpt_step = step;
    train_with(next);
    expect_same_files(iteration_folder(next.run.checkpoint.save, 10),
                      iteration_folder(o.run.checkpoint.save, 10));
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
  const auto error = [&](const std::function<void(PretrainOptions&)>& change) {
    PretrainOptions o = options("run");
    o.run.checkpoint.load = o.run.checkpoint.save;
    o.run.checkpoint.non_persistent_ckpt_type = "global";
    change(o);
    return error_of([&] { train_with(o); });
  };
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.checkpoint.save.clear();
              o.run.checkpoint.non_persistent_save_interval = 2;
            }),
            "64 --non-persistent-save-interval: needs --save");
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.checkpoint.non_persistent_ckpt_type.clear();
              o.run.checkpoint.non_persistent_save_interval = 2;
            }),
            "64 --non-persistent-save-interval: needs --non-persistent-ckpt-type global");
  EXPECT_EQ(error([](PretrainOptions& o) {
              o.run.checkpoint.non_persistent_ckpt_type.clear();
              o.run.checkpoint.non_persistent_global_ckpt_dir = "dir";
            }),
            "64 --non-persistent-global-ckpt-dir: needs --non-persistent-ckpt-type global");
  fs::create_directories(path("run/non_persistent"));
  write_file_atomically(path("run/non_persistent/latest_checkpointed_iteration.txt"), "release",
                        false);
  EXPECT_EQ(error([](PretrainOptions&) {}), concat("65 ", path("run/non_persistent"),
                                                   ": a release, expected checkpoints of a run"));
}

TEST_F(CheckpointTraining, WhatDoesNotFitTheCheckpoint) {
  PretrainOptions o = options("run");
  train_with(o);
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.length.train_iters = 12;
  PretrainOptions wide = o;
  wide.model.hidden_size = 32;
  EXPECT_EQ(error_of([&] { train_with(wide); }),
            concat("78 ", iteration_folder(o.run.checkpoint.save, 10),
                   ": --hidden-size is 16 in the checkpoint and 32 here", kWayOut));
  PretrainOptions no_optimizer = options("bare");
  no_optimizer.run.checkpoint.save_optimizer = false;
  train_with(no_optimizer);
  no_optimizer.run.checkpoint.load = no_optimizer.run.checkpoint.save;
  no_optimizer.run.length.train_iters = 12;
  EXPECT_EQ(error_of([&] { train_with(no_optimizer); }),
            concat("65 ", iteration_folder(no_optimizer.run.checkpoint.save, 10),
                   ": common.pt: no optimizer state; --no-load-optim starts with a fresh one"));
  no_optimizer.run.checkpoint.load_optimizer = false;
  train_with(no_optimizer);
}

// Settings that change what the stored weights mean.
TEST_F(CheckpointTraining, AnotherModelThanTheCheckpoints) {
  PretrainOptions o = options("run");
  train_with(o);
  o.run.checkpoint.load = o.run.checkpoint.save;
  const auto refusal = [&](const std::function<void(PretrainOptions&)>& change) {
    PretrainOptions other = o;
    change(other);
    return error_of([&] { train_with(other); });
  };
  const std::string where = concat("78 ", iteration_folder(o.run.checkpoint.save, 10), ": ");
  EXPECT_EQ(refusal([](PretrainOptions& t) { t.model.add_bias_linear = false; }),
            where + "--disable-bias-linear is off in the checkpoint and on here" + kWayOut);
  EXPECT_EQ(refusal([](PretrainOptions& t) { t.model.bias_gelu_fusion = false; }),
            where + "GeLU in its tanh form is on in the checkpoint and off here" + kWayOut);
  EXPECT_EQ(refusal([](PretrainOptions& t) { t.model.untie_embeddings_and_output_weights = true; }),
            where + "--untie-embeddings-and-output-weights is off in the checkpoint and on here" +
                kWayOut);
  EXPECT_EQ(refusal([](PretrainOptions& t) { t.model.max_position_embeddings = 20; }),
            where + "--max-position-embeddings is 16 in the checkpoint and 20 here" + kWayOut);
  EXPECT_EQ(refusal([](PretrainOptions& t) { t.model.position_embedding_type = "none"; }),
            where +
                "--position-embedding-type is learned_absolute in the checkpoint and none here" +
                kWayOut);
}

// A checkpoint's own folder can be named too, and its iteration is where the run goes on.
TEST_F(CheckpointTraining, LoadsOneCheckpointOfSeveral) {
  PretrainOptions o = options("whole");
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  o.run.checkpoint.load = iteration_folder(o.run.checkpoint.save, 5) + "/";
  o.run.checkpoint.save = path("again");
  train_with(o);
  expect_same_files(iteration_folder(path("again"), 10), iteration_folder(path("whole"), 10));
}

// Fewer validation samples than were consumed before begin again at the first.
TEST_F(CheckpointTraining, ResumesWithOtherEvaluations) {
  PretrainOptions o = options("run");
  o.run.evaluation.eval_iters = 5;
  o.run.evaluation.eval_interval = 1;
  train_with(o);
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.evaluation.eval_iters = 1;
  o.run.evaluation.eval_interval = 1000;
  o.run.length.train_iters = 12;
  o.run.schedule.override_checkpoint = true;
  train_with(o);
  EXPECT_EQ(losses("run", "eval").size(), 10 + 2 + 2U);
}

TEST_F(CheckpointTraining, WeightsThatAreNotFiniteAreNotSaved) {
  PretrainOptions o = options("run");
  o.run.length.train_iters = 1;
  o.run.schedule.warmup_iters = 0;
  o.run.schedule.lr = 1e300;
  EXPECT_EQ(error_of([&] { train_with(o); }),
            "1 iteration 1: weights are not finite; nothing was saved");
  EXPECT_EQ(contents_below(o.run.checkpoint.save).size(), 1U);  // run.jsonl
}

}  // namespace
}  // namespace mt
