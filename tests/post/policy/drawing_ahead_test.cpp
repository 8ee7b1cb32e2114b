// Runs that draw texts ahead of the steps that learn from them, by ranks of their own or by those
// that learn, at once or some tokens before each step.
#include <filesystem>
#include <set>
#include <sstream>

#include "comm/group.h"
#include "model/model_table.h"
#include "post/policy/texts_under_way.h"
#include "tests/infer/letters.h"
#include "tests/infer/small_gpt.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/policy/drawing_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// A list of each line of a kept step.
std::vector<std::vector<double>> lists(const std::string& lines, const std::string& member) {
  std::vector<std::vector<double>> all;
  const std::string key = "\"" + member + "\":[";
  for (std::size_t at = 0; (at = lines.find(key, at)) != lines.npos;) {
    all.emplace_back();
    for (at += key.size(); lines[at - 1] != ']'; ++at) {
      std::size_t length = 0;
      all.back().push_back(std::stod(lines.substr(at, 40), &length));
      at += length;
    }
  }
  return all;
}

// Texts that are drawn ahead are those of the weights of then, each step learns from them with the
// ratios by which these weights have moved, and the files of the steps are all that it learns from.
TEST_F(DrawingRun, LearnsFromWhatWasDrawnAhead) {
  const auto ahead = [&](const std::string& save, std::int64_t lag) {
    PolicyOptions o = drawing(save);
    o.max_lag = lag;
    o.correction = "truncate";
    o.rules.correction_high = 1.05;
    o.take_losses();
    return o;
  };
  train_with(ahead("drawn", 2));
  PolicyOptions none = drawing("none");
  train_with(none);
  const auto ids = [&](const std::string& run, int number) {
    std::vector<std::string> all;
    const std::string lines = step(run, number), key = "\"completion_ids\":[";
    for (std::size_t at = 0; (at = lines.find(key, at)) != lines.npos; ++at)
      all.push_back(lines.substr(at, lines.find(']', at) - at));
    return all;
  };
  EXPECT_EQ(ids("drawn", 1), ids("none", 1));
  EXPECT_EQ(numbers("drawn", 3, "version"), std::vector<double>(4, 0));
  EXPECT_EQ(numbers("drawn", 4, "version"), std::vector<double>(4, 1));
  int files = 0;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(path("drawn-rollouts"))) ++files;
  EXPECT_EQ(files, 4);

  PolicyOptions stored = ahead("stored", 0);
  stored.prompts.clear();
  stored.rewards.clear();
  stored.save_rollouts.clear();
  for (int i = 1; i <= 4; ++i)
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  expect_same_values("drawn", "stored");
  stored = ahead("uncorrected", 0);
  stored.prompts.clear();
  stored.rewards.clear();
  stored.save_rollouts.clear();
  stored.correction = "none";
  for (int i = 1; i <= 4; ++i)
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  bool same = true;
  for (const auto& file : fs::directory_iterator(path("drawn/iter_0000004")))
    if (file.path().extension() == ".distcp")
      same &= read_file(file.path().string()) ==
              read_file(path("uncorrected/iter_0000004/") + file.path().filename().string());
  EXPECT_FALSE(same);

  PolicyOptions part = ahead("parts", 2);
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 1;
  for (int i = 0; i < 4; ++i) train_with(part);
  expect_same_values("drawn", "parts");
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(step("drawn", i), step("parts", i)) << i;

  PolicyOptions shared = ahead("shared", 2);
  shared.run.ranks.count = 2;
  train_with(shared);
  EXPECT_EQ(step("drawn", 1), step("shared", 1));
  for (int i = 2; i <= 3; ++i) EXPECT_EQ(ids("drawn", i), ids("shared", i)) << i;
}

// What is said of a token while it is drawn is of logits that are divided by the temperature, as it
// is while it is learnt.
TEST_F(DrawingRun, SaysOfTextsAheadWhatTrainingSays) {
  PolicyOptions o = drawing("run");
  o.max_lag = 1;
  o.sampling.temperature = 0.5;
  o.take_losses();
  train_with(o);
  std::istringstream lines(step("run", 1));
  int texts = 0;
  for (std::string line; std::getline(lines, line); ++texts) {
    const auto learnt = lists(line, "old_log_probs"), said = lists(line, "log_probs");
    ASSERT_EQ(learnt.size(), 1U);
    if (said.empty()) continue;  // they are equal
    ASSERT_EQ(said[0].size(), learnt[0].size());
    for (std::size_t i = 0; i < said[0].size(); ++i)
      EXPECT_NEAR(said[0][i], learnt[0][i], 1e-4) << texts << " " << i;
  }
  EXPECT_EQ(texts, 4);
}

// Ranks that draw while others learn draw what those that do both draw ahead, to the byte, however
// many of each there are; also of a run that ends and goes on, of rewards that ask a model, and of
// a reference.
TEST_F(DrawingRun, OtherRanksDrawMeanwhile) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  write_file_atomically(path("valid.jsonl"), "{\"prompt\":\"x\"}\n{\"prompt\":\"yz\"}\n", false);
  const auto run = [&](const std::string& name, std::int64_t lag, int ranks, int drawers) {
    PolicyOptions o = drawing(name);
    o.max_lag = lag;
    o.correction = "truncate";
    o.rules.beta = 0.2;
    o.reference = path("start");
    o.valid_prompts = {path("valid.jsonl")};
    o.rewards = {"regex:[a-e]"};
    o.run.evaluation.eval_interval = 2;
    o.run.ranks.count = ranks;
    o.generation_ranks = drawers;
    o.run.length.train_iters = 4;
    o.take_losses();
    return o;
  };
  const auto steps = [&](const std::string& a, const std::string& b) {
    for (int i = 1; i <= 4; ++i) EXPECT_EQ(step(a, i), step(b, i)) << a << ", " << b << ": " << i;
    EXPECT_EQ(read_file(path(a + "-rollouts/valid-0000004.jsonl")),
              read_file(path(b + "-rollouts/valid-0000004.jsonl")));
  };
  for (const std::int64_t lag : {1, 2}) {
    const std::string both = concat("both", lag), two = concat("two", lag);
    train_with(run(both, lag, 1, 0));
    for (const int drawers : {1, 3}) {
      const std::string name = concat("lag", lag, "drawers", drawers);
      train_with(run(name, lag, 1 + drawers, drawers));
      expect_same_values(both, name);
      steps(both, name);
    }
    train_with(run(two, lag, 2, 0));
    const std::string learners = concat("lag", lag, "learners2");
    train_with(run(learners, lag, 3, 1));
    expect_same_values(two, learners);
    steps(two, learners);
  }
  PolicyOptions part = run("parts", 2, 2, 1);
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 1;
  for (int i = 0; i < 4; ++i) train_with(part);
  expect_same_values("both2", "parts");
  steps("both2", "parts");
  PolicyOptions unsaved = run("unsaved", 2, 2, 1);  // that ends while something is drawn
  unsaved.run.checkpoint.save.clear();
  unsaved.run.length.exit_interval = 2;
  train_with(unsaved);
}

// Texts that are drawn ahead get some tokens before each step, by the weights of then: those before
// the first step are what is drawn at once, each token says of which weights it is, and what is
// kept is all that is learnt from, also of a run that ended and went on.
TEST_F(DrawingRun, TextsInFlightGoOnWithNewWeights) {
  const auto run = [&](const std::string& name, std::int64_t lag, bool in_flight) {
    PolicyOptions o = drawing(name);
    o.max_lag = lag;
    o.in_flight = in_flight;
    o.max_completion_length = 9;
    o.run.schedule.lr = 1e-2;
    o.take_losses();
    return o;
  };
  train_with(run("at_once", 2, false));
  train_with(run("flying", 2, true));
  EXPECT_EQ(lists(step("flying", 1), "completion_ids"),
            lists(step("at_once", 1), "completion_ids"));
  const auto ids = lists(step("flying", 3), "completion_ids"),
             at_once = lists(step("at_once", 3), "completion_ids"),
             versions = lists(step("flying", 3), "versions");
  ASSERT_EQ(versions.size(), 4U);
  std::set<double> seen;
  for (std::size_t text = 0; text < 4; ++text) {
    ASSERT_EQ(versions[text].size(), ids[text].size());
    EXPECT_TRUE(std::ranges::is_sorted(versions[text]));
    for (std::size_t i = 0; i < ids[text].size(); ++i) {
      seen.insert(versions[text][i]);
      if (versions[text][i] == 0) {
        EXPECT_EQ(ids[text][i], at_once[text][i]) << text << " " << i;
      }
    }
  }
  EXPECT_EQ(seen, (std::set<double>{0, 1, 2}));
  const auto expect_replayed = [&](const std::string& name) {
    PolicyOptions stored = run(name + "_stored", 0, false);
    stored.prompts.clear();
    stored.rewards.clear();
    stored.save_rollouts.clear();
    for (int i = 1; i <= 4; ++i)
      stored.rollouts.push_back(path(concat(name, "-rollouts/step-000000", i, ".jsonl")));
    train_with(stored);
    expect_same_values(name, name + "_stored");
  };
  expect_replayed("flying");
  int files = 0;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(path("flying-rollouts"))) ++files;
  EXPECT_EQ(files, 4);

  PolicyOptions shared = run("shared", 2, true);
  shared.run.ranks.count = 2;
  train_with(shared);
  for (const char* const member : {"completion_ids", "versions"})
    for (int i = 1; i <= 3; ++i)
      EXPECT_EQ(lists(step("flying", i), member), lists(step("shared", i), member)) << i;

  PolicyOptions part = run("parts", 2, true);
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 3;
  for (int i = 0; i < 2; ++i) train_with(part);
  expect_replayed("parts");
}

// Which weights drew a token depends neither on how many texts a rank has nor on how long their
// prompts are, of which a page of the cache, as long as a text, does not hold two.
TEST_F(DrawingRun, TextsInFlightOfLongPromptsAreTheSameOnAnyRanks) {
  write_file_atomically(path("prompts.jsonl"),
                        "{\"prompt\":\"qxjzkvwqx\"}\n{\"prompt\":\"zkxvjqwzk\"}\n", true);
  const auto run = [&](const std::string& name, int ranks) {
    PolicyOptions o = drawing(name);
    o.max_lag = 2;
    o.in_flight = true;
    o.max_completion_length = 6;
    o.rewards = {"regex:[a-e]"};
    o.run.ranks.count = ranks;
    o.take_losses();
    train_with(o);
  };
  run("alone", 1);
  run("shared", 4);
  const auto versions = lists(step("alone", 3), "versions");
  ASSERT_EQ(versions.size(), 4U);
  EXPECT_EQ(versions.front(), (std::vector<double>{0, 0, 1, 1, 2, 2}));
  for (const char* const member : {"completion_ids", "versions"})
    for (int i = 1; i <= 3; ++i)
      EXPECT_EQ(lists(step("alone", i), member), lists(step("shared", i), member)) << i;
}

// A signal that one of the ranks hears that draw together ends the texts in flight of both, behind
// the same step.
TEST(TextsUnderWay, RanksThatDrawTogetherEndTogether) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 160;
  config.complete();
  const Letters letters;
  const CompletionModel about{.tokenizer = letters, .vocab_size = 30, .end_tokens = {31}};
  const PolicyPrompt prompt{.ids = {1, 2, 3}, .text = "bcd"};
  const std::vector<AskedText> asked(3, {.prompt = &prompt});
  int times[2] = {};  // that each was asked
  run_ranks(2, [&](Group& group) {
    Stream stream(Device::cpu, 1);
    const PassRanks ranks{.group = &group, .stream = &stream};
    const auto model = make_model(config, {{.end = config.all_layers()}}, ranks.part());
    model->table().allocate(Device::cpu, DType::f64, false);
    model->initialize(1, stream);
    int& own = times[group.rank()];
    TextsUnderWay texts(*model, about, asked,
                        {.seq_length = 160,
                         .threads = 1,
                         .ends = [&] { return ++own == 3 && group.rank() == 1; },
                         .ranks = ranks});
    EXPECT_TRUE(texts.go_on(20, 0));
    EXPECT_FALSE(texts.go_on(TextsUnderWay::kAll, 1));
  });
  EXPECT_EQ(times[0], 3);
  EXPECT_EQ(times[1], 3);
}

// By matrices of which those that learn have parts, or of stages, the same but for rounding.
TEST_F(DrawingRun, OtherRanksDrawForThoseThatShareTheModel) {
  const auto run = [&](const std::string& name, const FinetuneLayout& layout, int drawers) {
    PolicyOptions o = drawing(name);
    o.run.compute.dtype = "fp64";
    o.max_lag = 1;
    layout.divide(o.run);
    o.run.ranks.count += drawers;
    o.generation_ranks = drawers;
    train_with(o);
  };
  run("alone", {}, 0);
  for (const FinetuneLayout& layout :
       {FinetuneLayout{.tensor = 2}, {.tensor = 2, .pipeline = 2, .shares_rows = true}}) {
    run(layout.name(), layout, 2);
    for (int i = 1; i <= 4; ++i) EXPECT_EQ(step("alone", i), step(layout.name(), i)) << i;
  }
}

}  // namespace
}  // namespace mt
