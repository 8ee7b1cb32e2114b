// Runs that draw their own texts: what they learn from is what they store, and depends on nothing
// but the weights, the seed and the place of a text in the run.
#include <csignal>
#include <filesystem>

#include "post/policy/drawing_task.h"
#include "post/policy/policy_task.h"
#include "tests/post/sft_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

class DrawingRun : public SftRun {
 protected:
  DrawingRun() {
    std::string lines;
    for (const char* const prompt : {"a", "bcd", "ef", "ghijkl", "m"})
      lines += concat(R"({"prompt":")", prompt, "\",\"answer\":\"", prompt, "\"}\n");
    write_file_atomically(path("prompts.jsonl"), lines, false);
    std::signal(SIGPIPE, SIG_IGN);
  }

  // A text is worth the number of its letters `e`, as a program counts them.
  PolicyOptions drawing(const std::string& save) const {
    PolicyOptions o;
    static_cast<FinetuneOptions&>(o) = options(save);
    o.data = {};
    o.data.shuffle = false;
    o.prompts = {path("prompts.jsonl")};
    o.rewards = {
        "cmd:awk '{ split($0, part, /\"response\":/); sub(/\"answer\".*/, \"\", part[2]); "
        "print \"{\\\"id\\\":\" NR - 1 \",\\\"reward\\\":\" gsub(/e/, \"\", part[2]) \"}\" }'",
        "exact=3"};
    o.num_generations = 2;
    o.save_rollouts = path(save + "-rollouts");
    o.run.length.train_iters = 4;
    o.take_losses();
    return o;
  }

  static void train_with(PolicyOptions o) {
    Signals signals;
    const std::unique_ptr<Task> task = o.prompts.empty()
                                           ? std::unique_ptr<Task>(open_policy(o, quiet()))
                                           : open_drawing(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  }

  std::string step(const std::string& run, int number) const {
    return read_file(path(concat(run, "-rollouts/step-000000", number, ".jsonl")));
  }

  void expect_same_values(const std::string& a, const std::string& b) const {
    int compared = 0;
    for (const auto& file : fs::directory_iterator(path(a + "/iter_0000004"))) {
      const std::string name = file.path().filename().string();
      if (!name.ends_with(".distcp")) continue;
      EXPECT_TRUE(read_file(path(b + "/iter_0000004/") + name) == read_file(file.path().string()))
          << name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
};

// Also of the divergence from another model, whose log-probabilities are stored.
TEST_F(DrawingRun, LearnsWhatItStores) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  PolicyOptions drawn = drawing("drawn");
  drawn.rules.beta = 0.2;
  drawn.reference = path("start");
  train_with(drawn);
  PolicyOptions stored = drawing("stored");
  stored.rules.beta = 0.2;
  stored.prompts.clear();
  stored.rewards.clear();
  for (int i = 1; i <= 4; ++i)
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  expect_same_values("drawn", "stored");
}

// Ranks that each draw a part of a step draw the texts of one, whose divergence from another model
// they share, even where there are more of them than prompts.
TEST_F(DrawingRun, RanksShareTheTexts) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  const auto run = [&](const std::string& name, int ranks, const char* sharding) {
    PolicyOptions o = drawing(name);
    o.num_generations = 6;
    o.run.batch.global_batch_size = 12;
    o.run.batch.micro_batch_size = 2;
    o.run.ranks.count = ranks;
    o.run.optimizer.sharding_strategy = sharding;
    o.run.optimizer.use_distributed_optimizer = std::string(sharding) != "no_shard";
    o.rules.beta = 0.2;
    o.reference = path("start");
    train_with(o);
  };
  run("alone", 1, "no_shard");
  run("two", 2, "no_shard");
  run("three", 3, "optim_grads");
  for (int i = 1; i <= 4; ++i) {
    EXPECT_GT(step("alone", i).size(), 100U);
    EXPECT_EQ(step("alone", i), step("two", i));
    EXPECT_EQ(step("alone", i), step("three", i));
  }
}

TEST_F(DrawingRun, GoesOnToTheBit) {
  train_with(drawing("whole"));
  PolicyOptions part = drawing("parts");
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 2;
  train_with(part);
  part.run.length.exit_interval.reset();
  train_with(part);
  expect_same_values("whole", "parts");
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(step("whole", i), step("parts", i));
}

// The first texts of a step of twelve are those of a step of four, of the same weights; and all
// of them are different from those of another seed.
TEST_F(DrawingRun, TextsDependOnTheirPlaceAlone) {
  const auto first_step = [&](const std::string& name, std::int64_t batch, std::uint64_t seed) {
    PolicyOptions o = drawing(name);
    o.run.batch.global_batch_size = batch;
    o.run.length.train_iters = 1;
    o.run.checkpoint.load = path("start");
    o.run.checkpoint.finetune = true;
    o.run.seed = seed;
    train_with(o);
    return step(name, 1);
  };
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  const std::string few = first_step("few", 4, 5), many = first_step("many", 12, 5);
  EXPECT_GT(many.size(), few.size());
  EXPECT_EQ(many.substr(0, few.size()), few);
  EXPECT_NE(first_step("other", 4, 6), few);
}

// A program that says nothing costs a step its rewards, and the third in a row ends the run.
TEST_F(DrawingRun, EndsWhereAProgramSaysNothing) {
  PolicyOptions o = drawing("run");
  o.rewards = {"cmd:exit 3"};
  o.take_losses();
  try {
    train_with(o);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::peer_failed);
    EXPECT_STREQ(error.what(),
                 "--reward cmd:exit 3: exited with 3; 4 of 4 texts have no reward, for the third "
                 "step in a row");
  }
  EXPECT_TRUE(fs::exists(path("run-rollouts/step-0000002.jsonl")));
}

}  // namespace
}  // namespace mt
