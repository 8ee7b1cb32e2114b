// Runs that draw their own texts: what they learn from is what they store, and depends on nothing
// but the weights, the seed and the place of a text in the run.
#include <cmath>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "comm/group.h"
#include "model/config/model_config.h"
#include "post/preferences/preference_task.h"
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

// Where no token of a step counts it learns nothing, and goes on.
TEST_F(SameDrawing, LearnsNothingFromTextsThatAreAllCut) {
  PolicyOptions o = exact("run");
  o.masks_truncated = true;
  o.max_completion_length = 1;
  o.run.length.train_iters = 2;
  o.take_losses();
  train_with(o);
  EXPECT_EQ(step("run", 2).find("\"truncated\":false"), std::string::npos);
  for (const char* const member : {"loss", "grad_norm"})
    EXPECT_EQ(told("run", member), std::vector<double>({0, 0})) << member;
}

// A run that is killed before its first checkpoint begins again over what it left in its folder.
TEST_F(DrawingRun, BeginsAgainOverWhatItLeft) {
  PolicyOptions o = drawing("run");
  o.max_lag = 1;
  o.save_rollouts = kept_beside(path("run"));
  o.run.length.train_iters = 2;
  train_with(o);
  const std::string name = path("run/rollouts/step-0000002.jsonl"), kept = read_file(name);
  EXPECT_THROW(train_with(o), Error);
  for (const char* const left : {"iter_0000002", "latest_checkpointed_iteration.txt"})
    std::filesystem::remove_all(path("run/") + left);
  write_file_atomically(name, "half of a text", true);
  train_with(o);
  EXPECT_EQ(read_file(name), kept);
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
