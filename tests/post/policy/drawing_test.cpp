// Runs that draw their own texts: what they learn from is what they store, and depends on nothing
// but the weights, the seed and the place of a text in the run.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "comm/group.h"
#include "model/config/model_config.h"
#include "post/policy/validation.h"
#include "post/preferences/preference_task.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/policy/drawing_run.h"
#include "train/run/to_load.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

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

// A divergence that is weighed by who generated the texts is so while they are drawn, too, and of
// what is stored of them.
TEST_F(DrawingRun, WeighsTheDivergenceByWhoGenerated) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  const auto weighed = [&](const std::string& save, const char* weight) {
    PolicyOptions o = drawing(save);
    o.num_iterations = 2;
    o.rules.beta = 0.2;
    o.reference = path("start");
    o.estimate_weight = weight;
    o.take_losses();
    return o;
  };
  train_with(weighed("drawn", "generated"));
  train_with(weighed("one", "one"));
  EXPECT_EQ(step("drawn", 1), step("one", 1));
  EXPECT_NE(step("drawn", 3), step("one", 3));
  PolicyOptions stored = weighed("stored", "generated");
  stored.prompts.clear();
  stored.rewards.clear();
  stored.save_rollouts.clear();
  for (const int i : {1, 3})
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  expect_same_values("drawn", "stored");
}

// Ranks that each draw a part of a step draw the texts of one, whose divergence from another model
// they share, even where there are more of them than prompts, and learn from them twice.
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
    o.num_iterations = 2;
    o.rules.beta = 0.2;
    o.reference = path("start");
    train_with(o);
  };
  run("alone", 1, "no_shard");
  run("two", 2, "no_shard");
  run("three", 3, "optim_grads");
  // What the weights say of them differs by how the ranks' gradients are added up.
  const auto texts = [&](const std::string& name) {
    std::string lines = step(name, 3);
    for (std::size_t at = 0; (at = lines.find("\"old_log_probs\"", at)) != lines.npos;)
      lines.erase(at, lines.find(']', at) - at);
    return lines;
  };
  EXPECT_GT(step("alone", 1).size(), 100U);
  for (const char* const name : {"two", "three"}) {
    EXPECT_EQ(step("alone", 1), step(name, 1));
    EXPECT_EQ(texts("alone"), texts(name));
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

// Texts that four steps learn from are kept with what ratios of probabilities are of, which are 1
// in the first of these steps alone.
TEST_F(DrawingRun, SeveralStepsLearnFromTheSameTexts) {
  PolicyOptions drawn = several("drawn");
  drawn.run.report.log_interval = 1;
  train_with(drawn);
  const std::string log = read_file(path("drawn/run.jsonl"));
  int number = 0;
  for (std::size_t at = 0; (at = log.find("\"event\":\"step\"", at)) != log.npos; ++at, ++number) {
    const double ratio = std::stod(log.substr(log.find("\"ratio\":", at) + 8));
    EXPECT_EQ(ratio == 1, number % 4 == 0) << number << ": " << ratio;
  }
  EXPECT_EQ(number, 8);
  int files = 0;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(path("drawn-rollouts"))) ++files;
  EXPECT_EQ(files, 2);
  PolicyOptions stored = several("stored");
  stored.prompts.clear();
  stored.rewards.clear();
  stored.save_rollouts.clear();
  for (const int i : {1, 5})
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  expect_same_values("drawn", "stored", 8);
}

// With --batch-invariant what is said of texts while they are drawn is to the bit what training's
// own pass says of them, which the first step that draws sees to: texts of more than a page and a
// block of keys, by layers of several kinds, with adapters, and of ranks that share texts and have
// stages.
TEST_F(DrawingRun, SaysTheSameWhileItDrawsAndLearns) {
  using Changes = std::function<void(PolicyOptions&)>;
  const std::pair<const char*, Changes> kinds[] = {
      {"dense", [](PolicyOptions&) {}},
      {"gpt2",
       [](PolicyOptions& o) {
         o.model.normalization = "LayerNorm";
         o.model.position_embedding_type = "learned_absolute";
         o.model.swiglu = false;
         o.model.add_bias_linear = true;
         o.model.untie_embeddings_and_output_weights = false;
       }},
      {"experts",
       [](PolicyOptions& o) {
         o.model.family = ModelFamily::mixtral;
         o.model.num_experts = 4;
       }},
      {"adapters",
       [&](PolicyOptions& o) {
         o.run.checkpoint.load = path("dense");
         o.run.checkpoint.finetune = true;
         o.stored = stored_settings(o.run.checkpoint, 0);
         o.model.lora_rank = 2;
       }},
      {"ranks", [](PolicyOptions& o) {
         o.run.ranks.count = 4;
         o.run.ranks.parallel.pipeline_model_parallel_size = 2;
       }}};
  const auto events = [&](const std::string& run, const std::string& member) {
    const std::string log = read_file(path(run + "/run.jsonl")), key = "\"" + member + "\":";
    std::vector<double> all;
    for (std::size_t at = 0; (at = log.find(key, at)) != log.npos; ++at)
      all.push_back(std::stod(log.substr(at + key.size())));
    return all;
  };
  for (const auto& [name, change] : kinds) {
    SCOPED_TRACE(name);
    PolicyOptions o = several(name);
    o.sampling.temperature = 1;
    o.model.hidden_size = 64;  // heads that fill vectors
    o.model.max_position_embeddings = o.seq_length = 150;
    o.model.batch_invariant = true;
    o.run.report.log_interval = 1;
    change(o);
    train_with(o);
    const std::vector<double> ratios = events(name, "ratio");
    ASSERT_EQ(ratios.size(), 8U);
    for (const int first : {0, 4}) EXPECT_EQ(ratios[first], 1);
    EXPECT_NE(ratios[1], 1);
    EXPECT_EQ(numbers(name, 1, "reward").size(), 8U);
  }
  EXPECT_EQ(step("dense", 1), step("ranks", 1));
}

// A run that ends between two steps that share texts goes on from those that it has kept.
TEST_F(DrawingRun, GoesOnBetweenStepsThatShareTexts) {
  train_with(several("whole"));
  PolicyOptions part = several("parts");
  part.save_rollouts.clear();  // in the run's own folder
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 3;
  for (int i = 0; i < 3; ++i) train_with(part);
  expect_same_values("whole", "parts", 8);
  EXPECT_EQ(read_file(path("parts/rollouts/step-0000005.jsonl")), step("whole", 5));
}

// A step that learns from texts which are there asks for no model, which ranks would have to put
// together: neither one that finds them in a file nor those behind it.
TEST_F(DrawingRun, AsksForTheModelOnlyToDraw) {
  train_with(several("run"));
  PolicyOptions o = several("run");
  o.run.checkpoint.force = true;
  o.run.length.train_iters = 8;
  const std::unique_ptr<Task> task = open_drawing(o, quiet());
  task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, true), o.run.seed,
              o.run.batch, quiet());
  const std::unique_ptr<Group> alone = make_single_group();
  const auto draw = [&](std::int64_t step) {
    const std::int64_t samples = o.run.batch.largest();
    return task->draw({.iteration = step,
                       .first = (step - 1) * samples,
                       .samples = samples,
                       .ranks = *alone,
                       .ends = [] { return false; },
                       .model = []() -> const Model& { throw std::logic_error("was asked"); }});
  };
  for (const std::int64_t step : {2, 3, 4, 6}) EXPECT_TRUE(draw(step)) << step;
  EXPECT_THROW(draw(5), std::logic_error);
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

// Groups whose texts are worth the same give way to those of the prompts behind, as long as they
// may; and what is too long is worth less.
TEST_F(DrawingRun, ShapesAndChoosesWhatIsLearnt) {
  const auto equal_groups = [&](const std::string& name, std::int64_t attempts) {
    PolicyOptions o = drawing(name);
    o.rewards = {"regex:e"};
    o.dynamic_sampling = attempts;
    o.run.batch.global_batch_size = 12;
    o.run.length.train_iters = 1;
    o.run.checkpoint.load = path("start");
    o.run.checkpoint.finetune = true;
    o.take_losses();
    train_with(o);
    const std::vector<double> rewards = numbers(name, 1, "reward");
    EXPECT_EQ(rewards.size(), 12U);
    int equal = 0;
    for (std::size_t i = 0; i + 1 < rewards.size(); i += 2) equal += rewards[i] == rewards[i + 1];
    return equal;
  };
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  EXPECT_GT(equal_groups("all", 0), 0);
  EXPECT_EQ(equal_groups("unequal", 100), 0);

  PolicyOptions o = drawing("shaped");
  o.rewards = {"regex=0:e"};
  o.max_completion_length = 6;
  o.overlong_buffer = 4;
  o.overlong_penalty = 0.5;
  o.take_losses();
  train_with(o);
  const std::string lines = step("shaped", 1);
  const std::vector<double> rewards = numbers("shaped", 1, "reward");
  std::size_t at = 0;
  for (const double reward : rewards) {
    at = lines.find("\"completion_ids\":[", at) + 1;
    const auto tokens = 1 + std::ranges::count(lines.substr(at, lines.find(']', at) - at), ',');
    EXPECT_DOUBLE_EQ(reward, -std::max(0.0, static_cast<double>(tokens) - 2) / 4 * 0.5);
  }
  EXPECT_LT(*std::ranges::min_element(rewards), 0);
}

// Without a reference a run stays near the model that it began with, also once it goes on; one that
// trains adapters near the model that they are of.
TEST_F(DrawingRun, StaysNearWhatItBeganWith) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  const auto from_start = [&](const std::string& name, const std::string& reference) {
    PolicyOptions o = drawing(name);
    o.rules.beta = 0.2;
    o.reference = reference;
    o.run.checkpoint.load = path("start");
    o.run.checkpoint.finetune = true;
    o.stored = stored_settings(o.run.checkpoint, 0);
    return o;
  };
  train_with(from_start("given", path("start")));
  PolicyOptions part = from_start("parts", "");
  part.run.length.exit_interval = 2;
  train_with(part);
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.checkpoint.finetune = false;
  part.stored = stored_settings(part.run.checkpoint, 0);
  part.run.length.exit_interval.reset();
  train_with(part);
  expect_same_values("given", "parts");

  PolicyOptions adapters = from_start("adapters", "");
  adapters.model.lora_rank = 2;
  train_with(adapters);
  const auto said = [&](const std::string& run) {
    const std::string line = step(run, 1);
    return line.substr(line.find("reference_log_probs"));
  };
  EXPECT_EQ(said("adapters"), said("given"));
}

// Reward models that were learnt here say what each text is worth, each times its weight, whichever
// rank asks them.
TEST_F(DrawingRun, RewardModelsJudge) {
  write_file_atomically(path("pairs.jsonl"),
                        R"({"prompt":"a","chosen":"b","rejected":"cd"})"
                        "\n",
                        false);
  for (const int judge : {1, 2}) {
    PreferenceOptions pairs(true);
    static_cast<FinetuneOptions&>(pairs) = options(concat("judge-", judge));
    pairs.data.train = {path("pairs.jsonl")};
    pairs.data.valid_split = 0;
    pairs.run.seed += judge;
    pairs.run.batch.global_batch_size = 1;
    pairs.run.length.train_iters = 3;
    pairs.take_losses();
    Signals signals;
    train(pairs.run, *open_preferences(pairs, quiet()), signals, quiet(), "{}");
  }

  PolicyOptions o = drawing("run");
  o.rewards = {"rm=2:" + path("judge-1"), "rm=-0.5:" + path("judge-2"), "exact=3"};
  o.take_losses();
  train_with(o);
  const auto load = [&](const std::string& judge) {
    return load_model(
        path(judge), {}, {},
        {.families = {ModelFamily::gpt}, .others = "no reward model", .task_head = kScoreHead});
  };
  const LoadedModel first = load("judge-1"), second = load("judge-2");
  RewardPass by_first(*first.model, {.longest = o.seq_length}),
      by_second(*second.model, {.longest = o.seq_length});
  const std::vector<Rollout> kept =
      read_rollouts({path("run-rollouts/step-0000001.jsonl")},
                    {.group = o.num_generations, .seq_length = o.seq_length}, *first.tokenizer);
  ASSERT_EQ(kept.size(), 4U);
  for (const Rollout& one : kept) {
    double said[2] = {};
    const std::span<const std::int32_t> text(one.text.ids);
    by_first.judge({&text, 1}, {&said[0], 1});
    by_second.judge({&text, 1}, {&said[1], 1});
    EXPECT_NEAR(one.reward, 2 * said[0] - 0.5 * said[1], 1e-6);
    EXPECT_GT(std::abs(said[0] - said[1]), 1e-3);
    EXPECT_GT(std::min(std::abs(said[0]), std::abs(said[1])), 1e-3);
  }
  PolicyOptions two = o;
  two.run.ranks.count = 2;
  two.run.checkpoint.save = path("two");
  two.save_rollouts = path("two-rollouts");
  train_with(two);
  EXPECT_EQ(step("run", 1), step("two", 1));
}

class DrawingLayouts : public SameDrawing, public testing::WithParamInterface<FinetuneLayout> {};
INSTANTIATE_TEST_SUITE_P(All, DrawingLayouts, testing::ValuesIn(finetune_layouts(10)),
                         [](const auto& layout) { return layout.param.name(); });

// Ranks that share matrices draw together by these, of which those of several stages, or that have
// values in parts, put theirs together for each step's texts; each draws a part.
TEST_P(DrawingLayouts, AsOneRank) {
  train_with(exact("alone"));
  PolicyOptions o = exact("divided");
  GetParam().divide(o.run);
  train_with(o);
  expect_same_run("divided", "alone");
}

// A layout in training, and how many ranks draw together.
struct TwoLayouts {
  FinetuneLayout training;
  int together = 1;

  std::string name() const { return concat(training.name(), "_by", together); }
};
std::vector<TwoLayouts> two_layouts() {
  std::vector<TwoLayouts> all;
  const FinetuneLayout parts{.data = 4, .distributed = true, .sharding = "optim_grads_params"};
  for (const int together : {2, 4}) {
    all.push_back({{.data = 4}, together});
    all.push_back({parts, together});
    all.push_back({{.data = 2, .context = 2}, together});
    all.push_back({{.data = 4, .pipeline = 2}, together});
  }
  for (const int together : {1, 4}) {
    all.push_back({{.data = 2, .tensor = 2, .shares_rows = true}, together});
    all.push_back({{.data = 2, .tensor = 2, .pipeline = 2}, together});
    all.push_back({{.data = 2, .tensor = 2, .distributed = true, .sharding = "optim_grads_params"},
                   together});
  }
  all.push_back({{.tensor = 4}, 2});
  return all;
}

class InferenceLayouts : public SameDrawing, public testing::WithParamInterface<TwoLayouts> {};
INSTANTIATE_TEST_SUITE_P(All, InferenceLayouts, testing::ValuesIn(two_layouts()),
                         [](const auto& layouts) { return layouts.param.name(); });

// As many draw together as are told to, whichever share matrices in training.
TEST_P(InferenceLayouts, AsOneRank) {
  const auto with_heads = [&](const std::string& name) {
    PolicyOptions o = exact(name);
    o.model.num_query_groups = 4;
    o.run.batch.global_batch_size = 8;
    return o;
  };
  train_with(with_heads("alone"));
  PolicyOptions o = with_heads("divided");
  GetParam().training.divide(o.run);
  o.inference_tensor_ranks = GetParam().together;
  train_with(o);
  expect_same_run("divided", "alone");
}

class ExpertsDrawing : public SameDrawing {
 protected:
  PolicyOptions of_experts(const std::string& name, const FinetuneLayout& layout) const {
    PolicyOptions o = exact(name);
    o.model.family = ModelFamily::mixtral;
    o.model.num_experts = 4;
    layout.divide(o.run);
    return o;
  }
};
class ExpertsLayouts : public ExpertsDrawing, public testing::WithParamInterface<FinetuneLayout> {};
INSTANTIATE_TEST_SUITE_P(
    All, ExpertsLayouts,
    testing::ValuesIn(some_layouts(
        {{.data = 2, .experts = 2},
         {.data = 2, .tensor = 2, .shares_rows = true, .experts = 2},
         {.data = 2, .pipeline = 2, .experts = 2},
         {.data = 2, .tensor = 2, .pipeline = 2, .shares_rows = true, .experts = 2},
         {.data = 4, .experts = 4},
         {.data = 4, .distributed = true, .experts = 2},
         {.data = 2, .distributed = true, .sharding = "optim_grads_params", .experts = 2},
         {.data = 2,
          .tensor = 2,
          .pipeline = 2,
          .shares_rows = true,
          .distributed = true,
          .sharding = "optim_grads_params",
          .experts = 2}},
        10)),
    [](const auto& layout) { return layout.param.name(); });

// So do those that have other experts.
TEST_P(ExpertsLayouts, AsOneRank) {
  train_with(of_experts("alone", {}));
  train_with(of_experts("divided", GetParam()));
  expect_same_run("divided", "alone");
}

// And those that draw together by parts of all experts, which other ranks have.
TEST_F(ExpertsDrawing, ByPartsOfAllExperts) {
  const auto run = [&](const std::string& name, const FinetuneLayout& layout, int together,
                       std::optional<int> of_expert) {
    PolicyOptions o = of_experts(name, layout);
    o.run.batch.global_batch_size = 8;
    o.model.num_query_groups = 4;
    o.model.moe_shared_expert_intermediate_size = 8;
    o.run.ranks.parallel.expert_tensor_parallel_size = of_expert;
    o.inference_tensor_ranks = together;
    train_with(o);
  };
  run("alone", {}, 1, {});
  const FinetuneLayout shared{.data = 2, .tensor = 2, .shares_rows = true};
  FinetuneLayout apart = shared;
  apart.experts = 2;
  FinetuneLayout staged = apart;
  staged.pipeline = 2;
  int number = 0;
  for (const auto& [layout, together, of_expert] :
       {std::tuple(shared, 2, std::optional<int>()),
        {shared, 4, 1},
        {apart, 2, {}},
        {apart, 4, {}},
        {staged, 4, {}},
        {FinetuneLayout{.data = 4, .experts = 4}, 2, {}}}) {
    SCOPED_TRACE(concat(layout.name(), " by ", together));
    const std::string name = concat("run", ++number);
    run(name, layout, together, of_expert);
    expect_same_run(name, "alone");
  }
}

// And those with the biases of experts that each step gives them, or with other layers of these.
TEST_F(ExpertsDrawing, WithBiases) {
  const auto run = [&](const std::string& name, const FinetuneLayout& layout) {
    PolicyOptions o = of_experts(name, layout);
    o.model.moe_router_score_function = "sigmoid";
    o.model.moe_router_enable_expert_bias = true;
    o.model.moe_router_bias_update_rate = 0.3;
    train_with(o);
  };
  run("alone", {});
  run("divided", {.data = 2, .experts = 2});
  expect_same_run("divided", "alone");
  run("stages", {.pipeline = 2});
  expect_same_run("stages", "alone");
}

// Texts that share samples are learnt as they are alone, by steps of fewer micro-batches: once, or
// with the ratios that training's own pass says.
TEST_F(SameDrawing, OfTextsThatShareSamples) {
  for (const bool again : {false, true}) {
    const auto run = [&](const std::string& name, const char* packing, int ranks) {
      PolicyOptions o = again ? several(name) : drawing(name);
      o.run.compute.dtype = "fp64";
      o.run.report.log_interval = 1;
      o.max_completion_length = 4;
      o.run.batch.global_batch_size = 8;
      o.run.ranks.count = ranks;
      o.packing = packing;
      o.run.length.train_iters = 4;
      o.take_losses();
      train_with(o);
    };
    const std::string alone = again ? "alone2" : "alone", packed = again ? "packed2" : "packed",
                      shared = again ? "shared2" : "shared";
    run(alone, "none", 1);
    run(packed, "bfd", 1);
    run(shared, "mffd", 2);
    for (const std::string& name : {packed, shared})
      for (const char* const member : {"loss", "grad_norm"}) {
        const std::vector<double> got = told(name, member), expected = told(alone, member);
        ASSERT_EQ(got.size(), 4U);
        for (std::size_t i = 0; i < 4; ++i)
          EXPECT_NEAR(got[i], expected[i], 1e-9 * std::max(1.0, std::abs(expected[i])))
              << name << " " << member << " " << i;
      }
    const auto tokens = [&](const std::string& name) {
      return told(name, "tokens_per_second")[0] * told(name, "step_seconds")[0];
    };
    EXPECT_LT(tokens(packed), 0.7 * tokens(alone));
  }
}

// So do those of adapters, whose model never changes, with words that two stages have.
TEST_F(SameDrawing, OfAdaptersOfADividedModel) {
  PolicyOptions start = exact("start");
  start.model.untie_embeddings_and_output_weights = false;
  start.run.length.train_iters = 1;
  train_with(start);
  const auto run = [&](const std::string& name, const FinetuneLayout& layout) {
    PolicyOptions o = exact(name);
    o.model.untie_embeddings_and_output_weights = false;
    o.run.checkpoint.load = path("start");
    o.run.checkpoint.finetune = true;
    o.stored = stored_settings(o.run.checkpoint, 0);
    o.model.lora_rank = 2;
    o.rules.beta = 0.2;
    layout.divide(o.run);
    train_with(o);
  };
  run("alone", {});
  run("divided", {.tensor = 2, .pipeline = 2});
  expect_same_run("divided", "alone");
}

// Texts of other prompts are drawn between steps, which learn nothing of them: how many are right,
// and of how many prompts one is among two of them, or four.
TEST_F(SameDrawing, ValidatesByTextsOfOtherPrompts) {
  write_file_atomically(path("valid.jsonl"),
                        "{\"prompt\":\"x\"}\n{\"prompt\":\"yz\"}\n{\"prompt\":\"e\"}\n", false);
  const auto run = [&](const std::string& name, const FinetuneLayout& layout, bool validates) {
    PolicyOptions o = exact(name);
    o.rewards = {"regex=2:[a-f]"};
    o.max_completion_length = 3;
    if (validates) o.valid_prompts = {path("valid.jsonl")};
    o.valid_generations = 4;
    o.pass_reward = 2;
    o.run.evaluation.eval_interval = 2;
    layout.divide(o.run);
    o.take_losses();
    train_with(o);
  };
  run("alone", {}, true);
  run("divided", {.tensor = 2}, true);
  run("without", {}, false);
  expect_same_run("alone", "without");
  const std::string lines = read_file(path("alone-rollouts/valid-0000002.jsonl"));
  EXPECT_EQ(lines, read_file(path("divided-rollouts/valid-0000002.jsonl")));
  std::vector<bool> right;
  for (std::size_t at = 0; (at = lines.find("\"reward\":", at)) != lines.npos; ++at)
    right.push_back(std::stod(lines.substr(at + 9)) == 2);
  ASSERT_EQ(right.size(), 12U);
  double one = 0, of_two = 0, of_four = 0;
  for (std::size_t i = 0; i < 12; i += 4) {
    bool any = false;
    for (std::size_t a = i; a < i + 4; ++a) {
      any |= right[a];
      one += right[a] / 12.0;
      for (std::size_t b = i; b < a; ++b) of_two += (right[a] || right[b]) / 18.0;
    }
    of_four += any / 3.0;
  }
  EXPECT_GT(of_four, one);
  const std::string log = read_file(path("alone/run.jsonl"));
  const std::string told = log.substr(log.find("\"event\":\"eval\""));
  const auto number = [&](const std::string& member) {
    return std::stod(told.substr(told.find("\"" + member + "\":") + member.size() + 3));
  };
  EXPECT_EQ(number("iteration"), 2);
  int told_times = 0;  // the last at the end, which is one of the intervals', too
  for (std::size_t at = 0; (at = log.find("\"event\":\"eval\"", at)) != log.npos; ++at)
    ++told_times;
  EXPECT_EQ(told_times, 2);
  EXPECT_NEAR(number("reward"), 2 * one, 1e-6);  // of six decimals
  EXPECT_NEAR(number("pass@1"), one, 1e-12);
  EXPECT_NEAR(number("pass@2"), of_two, 1e-12);
  EXPECT_NEAR(number("pass@4"), of_four, 1e-12);
  const std::string results = read_file(path("alone/results.json"));
  EXPECT_NE(results.find("\"val_pass@4\":"), results.npos) << results;
}

// Texts without a reward are neither right nor wrong, and what nothing is known of is not told.
TEST(Validation, CountsTextsThatAreJudged) {
  const auto told = [](const std::vector<double>& rewards, std::int64_t group) {
    std::vector<DrawnText> drawn(rewards.size());
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      drawn[i].rollout.text.ids = {1, 2};
      drawn[i].rollout.reward = rewards[i];
    }
    std::map<std::string, double> numbers;
    for (const auto& [name, number] : numbers_of(drawn, group, 1)) numbers[name] = number;
    numbers.erase("completion_tokens");
    numbers.erase("truncated");
    return numbers;
  };
  using Numbers = std::map<std::string, double>;
  EXPECT_EQ(told({1, 0, NAN, NAN, 0, NAN, 0, 0, NAN, NAN, NAN, NAN}, 4),
            (Numbers{{"reward", 0.2}, {"without_reward", 7}, {"pass@1", 0.25}, {"pass@2", 0.5}}));
  EXPECT_EQ(told({NAN, NAN}, 2), (Numbers{{"without_reward", 2}}));
}

// What a run has kept is another's only with --force.
TEST_F(DrawingRun, KeepsWhatAnotherRunHasKept) {
  PolicyOptions o = drawing("run");
  o.run.length.train_iters = 1;
  train_with(o);
  const std::string kept = step("run", 1);
  o.run.checkpoint.save = path("other");
  o.run.seed += 1;
  try {
    train_with(o);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::cannot_create);
    EXPECT_EQ(std::string(error.what()),
              path("run-rollouts") +
                  ": holds rollouts of another run, step-0000001.jsonl; --force "
                  "replaces those of equal steps");
  }
  EXPECT_EQ(step("run", 1), kept);
  o.run.checkpoint.force = true;
  train_with(o);
  EXPECT_NE(step("run", 1), kept);
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

TEST_F(DrawingRun, LearnsNothingOfARewardThatIsInfinite) {
  PolicyOptions o = drawing("run");
  o.rewards = {R"(cmd=1e300:awk '{ print "{\"id\":" NR - 1 ",\"reward\":1e" NR % 2 * 300 "}" }')"};
  o.run.length.train_iters = 1;
  o.take_losses();
  train_with(o);
  const std::string lines = step("run", 1);
  int without = 0;
  for (std::size_t at = 0; (at = lines.find("\"reward\":null", at)) != lines.npos; ++at) ++without;
  EXPECT_EQ(without, 2) << lines;
  const std::string log = read_file(path("run/run.jsonl"));
  EXPECT_NE(log.find("\"reward\":1e+300"), log.npos) << log;
}

// A program that says nothing costs a step its rewards, and the third in a row ends the run, also
// where it has something to say, or nothing, of texts that the run is validated by.
TEST_F(DrawingRun, EndsWhereAProgramSaysNothing) {
  write_file_atomically(path("valid.jsonl"), "{\"prompt\":\"x\"}\n", false);
  const auto expect_end = [&](const std::string& name, const std::string& program,
                              const std::string& wrong, bool validates) {
    PolicyOptions o = drawing(name);
    o.rewards = {"cmd:" + program};
    if (validates) o.valid_prompts = {path("valid.jsonl")};
    o.run.evaluation.eval_interval = 1;
    o.take_losses();
    try {
      train_with(o);
      ADD_FAILURE() << name << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::peer_failed);
      EXPECT_EQ(error.what(), concat("--reward cmd:", program, ": ", wrong,
                                     "; 4 of 4 texts have no reward, for the third step in a row"));
    }
    EXPECT_TRUE(fs::exists(path(name + "-rollouts/step-0000002.jsonl"))) << name;
    EXPECT_FALSE(fs::exists(path(name + "-rollouts/step-0000003.jsonl"))) << name;
  };
  expect_end("run", "exit 3", "exited with 3", false);
  expect_end("dead", "exit 3", "exited with 3", true);
  expect_end("partial", R"(awk '/"prompt":"x"/ { print "{\"id\":" NR - 1 ",\"reward\":1}" }')",
             "said nothing of 4 texts", true);
}

}  // namespace
}  // namespace mt
