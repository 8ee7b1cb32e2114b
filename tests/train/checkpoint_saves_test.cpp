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
    TrainOptions o = options(concat("waits", ranks));
    o.save_interval = 3;
    o.ranks = ranks;
    o.optimizer.use_distributed_optimizer = ranks > 1;
    train_with(o);
    TrainOptions async = o;
    async.save = path(concat("async", ranks));
    async.async_save = true;
    async.keep_last = 2;
    train_with(async);
    EXPECT_EQ(list_checkpoints(async.save), (std::vector<std::int64_t>{9, 10}));
    for (const int iteration : {9, 10})
      expect_same_tensors(iteration_folder(async.save, iteration),
                          iteration_folder(o.save, iteration));
    EXPECT_EQ(events(concat("async", ranks), "save").size(), 4U);
    for (const auto& entry : fs::directory_iterator(async.save))
      EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
    async.load = async.save;
    async.train_iters = 12;
    async.schedule.override_checkpoint = true;
    train_with(async);
    EXPECT_EQ(losses(concat("async", ranks)).size(), 12U);
  }
}

// A full disk, as it were: no file may grow beyond a size that the log does not reach.
TEST_F(CheckpointSaves, AsyncFailureEndsTheRunAndLeavesTheCheckpointBefore) {
  TrainOptions o = options("run");
  o.train_iters = 2;
  o.schedule.warmup_iters = 0;
  train_with(o);
  const Files before = contents_below(iteration_folder(o.save, 2));
  o.load = o.save;
  o.async_save = true;
  o.train_iters = 10;
  o.schedule.override_checkpoint = true;
  o.save_interval = 3;
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
  EXPECT_EQ(list_checkpoints(o.save), std::vector<std::int64_t>{2});
  EXPECT_TRUE(contents_below(iteration_folder(o.save, 2)) == before);
  EXPECT_EQ(read_file(o.save + "/latest_checkpointed_iteration.txt"), "2");
}

TEST_F(CheckpointSaves, RanksOfTheSameWeightsShareTheWriting) {
  TrainOptions o = options("shared");
  o.ranks = 4;
  train_with(o);
  TrainOptions alone = o;
  alone.save = path("alone");
  alone.fully_parallel_save = false;
  train_with(alone);
  std::uintmax_t least = UINTMAX_MAX, most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = concat("/__", rank, "_0.distcp");
    EXPECT_EQ(fs::exists(iteration_folder(alone.save, 10) + name), rank == 0);
    const std::uintmax_t size = fs::file_size(iteration_folder(o.save, 10) + name);
    least = std::min(least, size);
    most = std::max(most, size);
  }
  EXPECT_GT(least, 0U);
  EXPECT_LT(most, fs::file_size(iteration_folder(alone.save, 10) + "/__0_0.distcp"));
  expect_near_tensors("shared", "alone", 10, kWeights, 0);
}

void damage(const std::string& path) {
  std::string content = read_file(path);
  content[content.size() / 2] ^= 4;
  fs::remove(path);
  write_file_atomically(path, content, false);
}

TEST_F(CheckpointSaves, GoesOnFromTheNewestThatIsWhole) {
  TrainOptions o = options("whole");
  o.save_interval = 2;
  train_with(o);
  for (const int ranks : {1, 2}) {
    const std::string name = concat("damaged", ranks);
    for (const int iteration : {4, 6, 8}) copy_of("whole", iteration, name);
    damage(iteration_folder(path(name), 8) + "/__0_0.distcp");
    fs::remove(iteration_folder(path(name), 6) + "/common.pt");
    TrainOptions next = o;
    next.ranks = ranks;
    next.save = next.load = path(name);
    testing::internal::CaptureStderr();
    train_with(next);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("iter_0000008/__0_0.distcp: hash "), std::string::npos) << said;
    EXPECT_NE(said.find("going on from " + iteration_folder(path(name), 6)), std::string::npos);
    EXPECT_NE(said.find("iter_0000006/common.pt: cannot open"), std::string::npos) << said;
    EXPECT_NE(said.find("going on from " + iteration_folder(path(name), 4)), std::string::npos);
    EXPECT_EQ(losses(name).size(), 6U);
    if (ranks == 1)
      expect_same_files(iteration_folder(next.save, 10), iteration_folder(o.save, 10));
  }
}

TEST_F(CheckpointSaves, WhatWasAskedForIsNotReplaced) {
  TrainOptions o = options("run");
  o.save_interval = 5;
  train_with(o);
  o.load = o.save;
  o.train_iters = 12;
  o.schedule.override_checkpoint = true;
  damage(iteration_folder(o.save, 10) + "/__0_0.distcp");
  const auto refused = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions other = o;
    change(other);
    return matches(error_of([&] { train_with(other); }),
                   "65 .*iter_0000010/__0_0.distcp: hash .*damaged");
  };
  EXPECT_TRUE(refused([](TrainOptions& t) { t.ckpt_step = 10; }));
  EXPECT_TRUE(refused([](TrainOptions& t) { t.load = iteration_folder(t.load, 10); }));
  EXPECT_TRUE(refused([](TrainOptions& t) { t.finetune = true; }));
  fs::remove_all(iteration_folder(o.save, 5));
  EXPECT_TRUE(refused([](TrainOptions&) {}));  // there is no other
}

}  // namespace
}  // namespace mt
