// Saves that training does not wait for, or that ranks share; and what is loaded after damage.
#include <sys/resource.h>

#include <csignal>

#include "tests/support/matches.h"
#include "tests/train/training_run.h"

namespace mt {
namespace {

using CheckpointSaves = Training;

// The settings of the run, in common.pt, tell it from another; the tensors do not.
void expect_same_tensors(const std::string& got, const std::string& expected) {
  Files a = contents_below(got), b = contents_below(expected);
  for (Files* files : {&a, &b})
    for (const char* name : {"common.pt", "mt-manifest.json"}) EXPECT_EQ(files->erase(name), 1U);
  EXPECT_GT(a.size(), 3U);
  EXPECT_TRUE(a == b);
}

TEST_F(CheckpointSaves, AsyncWritesTheSameBytes) {
  for (const int ranks : {1, 2}) {
    PretrainOptions o = options(concat("waits", ranks));
    o.run.checkpoint.save_interval = 3;
    o.run.ranks.count = ranks;
    o.run.optimizer.use_distributed_optimizer = ranks > 1;
    train_with(o);
    PretrainOptions async = o;
    async.run.checkpoint.save = path(concat("async", ranks));
    async.run.checkpoint.async_save = true;
    async.run.checkpoint.keep_last = 2;
    train_with(async);
    EXPECT_EQ(list_checkpoints(async.run.checkpoint.save), (std::vector<std::int64_t>{9, 10}));
    for (const int iteration : {9, 10})
      expect_same_tensors(iteration_folder(async.run.checkpoint.save, iteration),
                          iteration_folder(o.run.checkpoint.save, iteration));
    EXPECT_EQ(events(concat("async", ranks), "save").size(), 4U);
    for (const auto& entry : fs::directory_iterator(async.run.checkpoint.save))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    async.run.checkpoint.load = async.run.checkpoint.save;
    async.run.length.train_iters = 12;
    async.run.schedule.override_checkpoint = true;
    train_with(async);
    EXPECT_EQ(losses(concat("async", ranks)).size(), 12U);
  }
}

// A full disk, as it were: no file may grow beyond a size that the log does not reach.
TEST_F(CheckpointSaves, AsyncFailureEndsTheRunAndLeavesTheCheckpointBefore) {
  PretrainOptions o = options("run");
  o.run.length.train_iters = 2;
  o.run.schedule.warmup_iters = 0;
  train_with(o);
  const Files before = contents_below(iteration_folder(o.run.checkpoint.save, 2));
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.checkpoint.async_save = true;
  o.run.length.train_iters = 10;
  o.run.schedule.override_checkpoint = true;
  o.run.checkpoint.save_interval = 3;
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit whole;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const rlimit small = {20'000, whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { train_with(o); });
  ::setrlimit(RLIMIT_FSIZE, &whole);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(matches(error, "74 .*/iter_0000003\\.tmp\\.[0-9]+/__0_0\\.distcp: cannot write: .*"))
      << error;
  EXPECT_EQ(list_checkpoints(o.run.checkpoint.save), std::vector<std::int64_t>{2});
  EXPECT_TRUE(contents_below(iteration_folder(o.run.checkpoint.save, 2)) == before);
  EXPECT_EQ(read_file(o.run.checkpoint.save + "/latest_checkpointed_iteration.txt"), "2");
}

TEST_F(CheckpointSaves, RanksOfTheSameWeightsShareTheWriting) {
  PretrainOptions o = options("shared");
  o.run.ranks.count = 4;
  train_with(o);
  PretrainOptions alone = o;
  alone.run.checkpoint.save = path("alone");
  alone.run.checkpoint.fully_parallel_save = false;
  train_with(alone);
  std::uintmax_t least = UINTMAX_MAX, most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = concat("/__", rank, "_0.distcp");
    EXPECT_EQ(fs::exists(iteration_folder(alone.run.checkpoint.save, 10) + name), rank == 0);
    const std::uintmax_t size = fs::file_size(iteration_folder(o.run.checkpoint.save, 10) + name);
    least = std::min(least, size);
    most = std::max(most, size);
  }
  EXPECT_GT(least, 0U);
  EXPECT_LT(most, fs::file_size(iteration_folder(alone.run.checkpoint.save, 10) + "/__0_0.distcp"));
  expect_near_tensors("shared", "alone", 10, kWeights, 0);
}

void damage(const std::string& path) {
  std::string content = read_file(path);
  content[content.size() / 2] ^= 4;
  fs::remove(path);
  write_file_atomically(path, content, false);
}

TEST_F(CheckpointSaves, GoesOnFromTheNewestThatIsWhole) {
  PretrainOptions o = options("whole");
  o.run.checkpoint.save_interval = 2;
  train_with(o);
  for (const int ranks : {1, 2}) {
    const std::string name = concat("damaged", ranks);
    for (const int iteration : {4, 6, 8}) copy_of("whole", iteration, name);
    damage(iteration_folder(path(name), 8) + "/__0_0.distcp");
    fs::remove(iteration_folder(path(name), 6) + "/common.pt");
    PretrainOptions next = o;
    next.run.ranks.count = ranks;
    next.run.checkpoint.save = next.run.checkpoint.load = path(name);
    testing::internal::CaptureStderr();
    train_with(next);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("iter_0000008/__0_0.distcp: hash "), std::string::npos) << said;
    EXPECT_NE(said.find("going on from " + iteration_folder(path(name), 6)), std::string::npos);
    EXPECT_NE(said.find("iter_0000006/common.pt: cannot open"), std::string::npos) << said;
    EXPECT_NE(said.find("going on from " + iteration_folder(path(name), 4)), std::string::npos);
    EXPECT_EQ(losses(name).size(), 6U);
    if (ranks == 1)
      expect_same_files(iteration_folder(next.run.checkpoint.save, 10),
                        iteration_folder(o.run.checkpoint.save, 10));
  }
}

TEST_F(CheckpointSaves, WhatWasAskedForIsNotReplaced) {
  PretrainOptions o = options("run");
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.length.train_iters = 12;
  o.run.schedule.override_checkpoint = true;
  damage(iteration_folder(o.run.checkpoint.save, 10) + "/__0_0.distcp");
  const auto refused = [&](const std::function<void(PretrainOptions&)>& change) {
    PretrainOptions other = o;
    change(other);
    return matches(error_of([&] { train_with(other); }),
                   "65 .*iter_0000010/__0_0.distcp: hash .*damaged");
  };
  EXPECT_TRUE(refused([](PretrainOptions& t) { t.run.checkpoint.ckpt_step = 10; }));
  EXPECT_TRUE(refused([&](PretrainOptions& t) {
    t.run.checkpoint.load = iteration_folder(t.run.checkpoint.load, 10);
    t.run.checkpoint.save = path("elsewhere");
  }));
  EXPECT_TRUE(refused([&](PretrainOptions& t) {
    t.run.checkpoint.finetune = true;
    t.run.checkpoint.save = path("elsewhere");
  }));
  fs::remove_all(iteration_folder(o.run.checkpoint.save, 5));
  EXPECT_TRUE(refused([](PretrainOptions&) {}));  // there is no other
}

}  // namespace
}  // namespace mt
