#include "post/preferences/preference_task.h"

#include <filesystem>

#include "base/error.h"
#include "tests/post/sft_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

class PreferenceRun : public SftRun {
 protected:
  PreferenceRun() {
    std::string lines;
    for (int i = 0; i < kTexts; ++i)
      lines += concat(R"({"prompt":"q)", i, R"(","chosen":"b)", i * 7 % 5, R"(","rejected":"no)",
                      i % 3, "\"}\n");
    write_file_atomically(path("pairs.jsonl"), lines, false);
  }

  PreferenceOptions preferences(const std::string& loss = "dpo",
                                const std::string& save = "") const {
    PreferenceOptions o(loss == "reward");
    static_cast<FinetuneOptions&>(o) = options(save);
    o.data.train = {path("pairs.jsonl")};
    o.data.valid_split = 0;
    o.seq_length = 32;
    o.model.max_position_embeddings = 32;
    if (loss != "reward") o.loss = loss;
    if (loss == "kto") o.run.batch.micro_batch_size = 2;
    o.take_losses();
    return o;
  }

  static void train_with(PreferenceOptions o) {
    Signals signals;
    const auto task = open_preferences(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  }

  static LayoutRun run_of(PreferenceOptions o, int steps) {
    const auto task = open_preferences(o, quiet());
    task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, true), o.run.seed,
                o.run.batch, quiet());
    return run_layout(o.run, *task, steps);
  }
};

TEST_F(PreferenceRun, PackedIsAsUnpacked) {
  for (const char* const loss : {"dpo", "orpo", "reward"}) {
    const auto with = [&](const char* packing) {
      PreferenceOptions o = preferences(loss);
      o.run.compute.dtype = "fp64";
      o.packing = packing;
      o.run.batch.global_batch_size = kTexts;
      return run_of(o, 1);
    };
    const LayoutDifference difference = largest_difference(with("mffd"), with("none"));
    EXPECT_LT(difference.value, 1e-9) << loss << ": " << difference.where;
  }
}

struct Layout {
  const char* name;
  int ranks = 1, tensor = 1, pipeline = 1;
  std::int64_t micro = 1;
  bool distributed = false;
};

class PreferenceLayouts : public PreferenceRun, public testing::WithParamInterface<Layout> {};

INSTANTIATE_TEST_SUITE_P(
    All, PreferenceLayouts,
    testing::Values(
        Layout{.name = "micro4", .micro = 4},
        Layout{.name = "dp2_sharded", .ranks = 2, .micro = 2, .distributed = true},
        Layout{.name = "tp2", .ranks = 2, .tensor = 2},
        Layout{.name = "pp2", .ranks = 2, .pipeline = 2},
        Layout{.name = "tp2_pp2_dp2", .ranks = 8, .tensor = 2, .pipeline = 2, .distributed = true}),
    [](const auto& layout) { return layout.param.name; });

TEST_P(PreferenceLayouts, AsOneRank) {
  for (const char* const loss : {"dpo", "ipo", "simpo", "reward"}) {
    const auto with = [&](const Layout& layout) {
      PreferenceOptions o = preferences(loss);
      o.run.compute.dtype = "fp64";
      o.run.batch.micro_batch_size = layout.micro;
      o.run.batch.global_batch_size = 4;
      o.run.optimizer.use_distributed_optimizer = layout.distributed;
      o.run.ranks.count = layout.ranks;
      o.run.ranks.parallel.tensor_model_parallel_size = layout.tensor;
      o.run.ranks.parallel.pipeline_model_parallel_size = layout.pipeline;
      return run_of(o, 3);
    };
    const LayoutDifference difference = largest_difference(with(GetParam()), with({}));
    EXPECT_LT(difference.value, 1e-9) << loss << ": " << difference.where;
  }
}

// What a member of run.jsonl is in each step.
std::vector<double> told(const std::string& run_log, const std::string& member) {
  std::vector<double> numbers;
  const std::string key = "\"" + member + "\":";
  for (std::size_t at = 0; (at = run_log.find("\"event\":\"step\"", at)) != run_log.npos; ++at)
    numbers.push_back(std::stod(run_log.substr(run_log.find(key, at) + key.size())));
  return numbers;
}

// The model and its reference are the same to the bit, whatever shares a sample.
TEST_F(PreferenceRun, BeginsWithoutADifference) {
  for (const char* const packing : {"none", "bfd"}) {
    PreferenceOptions o = preferences("dpo", packing);
    o.packing = packing;
    o.run.length.train_iters = 2;
    o.run.batch.micro_batch_size = 2;  // whatever else a micro-batch has
    o.run.evaluation.eval_iters = 0;   // and though nothing else is evaluated
    train_with(o);
    const std::string log = read_file(path(packing) + std::string("/run.jsonl"));
    EXPECT_EQ(told(log, "rewards_margins")[0], 0);
    EXPECT_EQ(told(log, "rewards_chosen")[0], 0);
    EXPECT_NEAR(told(log, "loss")[0], std::log(2.0), 1e-6);
    EXPECT_NE(told(log, "rewards_margins")[1], 0);
  }
}

// Every file of the last checkpoint of a run that ended after its second step and went on, and what
// it is told of by.
TEST_F(PreferenceRun, GoesOnToTheBit) {
  for (const char* const loss : {"dpo", "kto"}) {
    const std::string one = concat(loss, "-whole"), two = concat(loss, "-parts");
    const auto options_of = [&](const std::string& save) {
      PreferenceOptions o = preferences(loss, save);
      o.data.valid_split = 0.2;
      o.data.epochs = 2;
      return o;
    };
    train_with(options_of(one));
    PreferenceOptions part = options_of(two);
    part.run.checkpoint.load = part.run.checkpoint.save;
    part.run.length.exit_interval = 2;
    train_with(part);
    part.run.length.exit_interval.reset();
    train_with(part);
    const std::string last = read_file(path(one + "/latest_checkpointed_iteration.txt"));
    EXPECT_EQ(read_file(path(two + "/latest_checkpointed_iteration.txt")), last);
    EXPECT_EQ(read_file(path(two + "/reference.json")), read_file(path(one + "/reference.json")));
    const std::string folder = concat("/iter_", std::string(7 - last.size(), '0'), last);
    int compared = 0;
    for (const auto& file : fs::directory_iterator(path(one) + folder)) {
      const std::string name = file.path().filename().string();
      if (!name.ends_with(".distcp")) continue;
      EXPECT_TRUE(read_file(path(two) + folder + "/" + name) == read_file(file.path().string()))
          << name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
}

TEST_F(PreferenceRun, DoesNotGoOnWithOtherData) {
  PreferenceOptions o = preferences("dpo", "run");
  o.run.checkpoint.load = o.run.checkpoint.save;
  o.run.length.exit_interval = 2;
  train_with(o);
  std::string lines = read_file(path("pairs.jsonl"));
  lines.replace(lines.find("q7"), 2, "q8");
  write_file_atomically(path("pairs.jsonl"), lines, true);
  try {
    train_with(o);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    EXPECT_NE(std::string(error.what()).find("is of other samples"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace mt
