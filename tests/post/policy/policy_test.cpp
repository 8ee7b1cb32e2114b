#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "post/policy/policy_samples.h"
#include "post/policy/policy_task.h"
#include "tensor/buffer.h"
#include "tests/post/sft_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// Twelve prompts of two texts each, which were written by a policy near to the one that learns.
class PolicyRun : public SftRun {
 protected:
  static constexpr int kRollouts = 24;

  PolicyRun() { write_file_atomically(path("rollouts.jsonl"), lines(true), false); }

  static std::string lines(bool with_reference) {
    std::string lines;
    std::mt19937 random(5);
    const auto list = [&](std::size_t count, const auto& number) {
      std::string items;
      for (std::size_t i = 0; i < count; ++i) items += concat(i == 0 ? "" : ",", number(i));
      return items;
    };
    const auto id = [&](std::size_t) { return random() % 300; };
    const auto log_prob = [&](std::size_t) {
      return -5.5 - static_cast<double>(random() % 1000) / 1e3;
    };
    for (int i = 0; i < kRollouts; i += 2) {
      const std::string prompt = list(1 + random() % 6, id);
      for (int member = 0; member < 2; ++member) {
        const std::size_t tokens = 1 + random() % 8;
        lines += concat(R"({"prompt_ids":[)", prompt, R"(],"completion_ids":[)", list(tokens, id),
                        R"(],"log_probs":[)", list(tokens, log_prob), R"(],"reward":)",
                        i % 8 == 0 ? 1 : member);
        if (with_reference)
          lines += concat(R"(,"reference_log_probs":[)", list(tokens, log_prob), "]");
        lines += "}\n";
      }
    }
    return lines;
  }

  // Likewise, with what a value head had said.
  static std::string valued_lines() {
    std::string all = lines(true);
    const std::string key = R"("completion_ids":[)";
    int number = 0;
    for (std::size_t at = 0; (at = all.find(key, at)) != all.npos; ++at) {
      const std::size_t end = all.find(']', at);
      std::string values;
      for (auto left = 1 + std::ranges::count(all.substr(at, end - at), ','); left > 0; --left)
        values += concat(values.empty() ? "" : ",", 0.25 * (number++ % 7) - 0.5);
      all.insert(end + 1, concat(",\"values\":[", values, "]"));
    }
    return all;
  }

  PolicyOptions policy(const std::string& loss = "dapo", const std::string& save = "") const {
    PolicyOptions o;
    static_cast<FinetuneOptions&>(o) = options(save);
    o.data = {};
    o.data.shuffle = false;
    o.rollouts = {path("rollouts.jsonl")};
    o.num_generations = 2;
    o.loss = loss;
    o.max_completion_length = 8;
    o.rules.beta = 0.1;
    o.take_losses();
    return o;
  }

  static void train_with(PolicyOptions o) {
    Signals signals;
    const auto task = open_policy(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  }

  static LayoutRun run_of(PolicyOptions o, int steps) {
    const auto task = open_policy(o, quiet());
    task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, true), o.run.seed,
                o.run.batch, quiet());
    return run_layout(o.run, *task, steps);
  }

  static void expect_refused(PolicyOptions o, Exit code, const std::string& what) {
    try {
      open_policy(o, quiet());
      FAIL() << "nothing was thrown: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
};

struct Layout {
  const char* name;
  int ranks = 1, tensor = 1, pipeline = 1;
  std::int64_t micro = 1;
  bool distributed = false;
  int context = 1;
  const char* packing = "none";
  bool shares_rows = false;

  void divide(PolicyOptions& o) const {
    o.run.batch.micro_batch_size = micro;
    o.run.batch.global_batch_size = 4;
    o.run.optimizer.use_distributed_optimizer = distributed;
    o.run.ranks.count = ranks;
    o.run.ranks.parallel.tensor_model_parallel_size = tensor;
    o.run.ranks.parallel.pipeline_model_parallel_size = pipeline;
    o.run.ranks.parallel.context_parallel_size = context;
    o.run.ranks.parallel.sequence_parallel = shares_rows;
    o.packing = packing;
  }
};

class PolicyLayouts : public PolicyRun, public testing::WithParamInterface<Layout> {};

INSTANTIATE_TEST_SUITE_P(
    All, PolicyLayouts,
    testing::Values(
        Layout{.name = "micro4", .micro = 4},
        Layout{.name = "dp2_sharded", .ranks = 2, .micro = 2, .distributed = true},
        Layout{.name = "tp2", .ranks = 2, .tensor = 2},
        Layout{.name = "tp2_rows", .ranks = 2, .tensor = 2, .shares_rows = true},
        Layout{.name = "pp2", .ranks = 2, .pipeline = 2},
        Layout{.name = "cp2", .ranks = 2, .context = 2},
        Layout{.name = "packed", .micro = 2, .packing = "bfd"},
        Layout{.name = "packed_dp2_tp2", .ranks = 4, .tensor = 2, .packing = "mffd"},
        Layout{.name = "packed_cp2_pp2",
               .ranks = 4,
               .pipeline = 2,
               .context = 2,
               .packing = "first_fit_decreasing"},
        Layout{.name = "tp2_pp2_dp2", .ranks = 8, .tensor = 2, .pipeline = 2, .distributed = true}),
    [](const auto& layout) { return layout.param.name; });

// All but bnpo, which is of micro-batches; where ranks share sequences, but for ratios of texts.
TEST_P(PolicyLayouts, AsOneRank) {
  for (const char* const loss : {"grpo", "dapo", "dr_grpo", "luspo", "sapo", "vespo"}) {
    const bool of_texts = loss == std::string("luspo") || loss == std::string("vespo");
    if (of_texts && GetParam().context > 1) continue;
    const auto with = [&](const Layout& layout) {
      PolicyOptions o = policy(loss);
      o.level = loss == std::string("luspo") ? "sequence" : "token";
      o.take_losses();
      o.run.compute.dtype = "fp64";
      layout.divide(o);
      return run_of(o, 3);
    };
    const LayoutDifference difference = largest_difference(with(GetParam()), with({}));
    EXPECT_LT(difference.value, 1e-9) << loss << ": " << difference.where;
  }
}

// With a value head, which begins with zeros, so that the second step is the first of which the
// layers learn something by it.
TEST_P(PolicyLayouts, ValuesAsOneRank) {
  write_file_atomically(path("rollouts.jsonl"), valued_lines(), true);
  for (const char* const loss : {"grpo", "dapo"}) {
    const auto with = [&](const Layout& layout, double weight) {
      PolicyOptions o = policy(loss);
      o.advantage = "gae";
      o.of_values.weight = weight;
      o.take_losses();
      o.run.compute.dtype = "fp64";
      layout.divide(o);
      return run_of(o, 3);
    };
    const LayoutRun alone = with({}, 0.5);
    const LayoutDifference difference = largest_difference(with(GetParam(), 0.5), alone);
    EXPECT_LT(difference.value, 1e-9) << loss << ": " << difference.where;
    EXPECT_GT(largest_difference(with({}, 0), alone).value, 1e-3);
  }
}

// Every file of the last checkpoint of a run that ended after its second step and went on, whose
// reference is the model that it began with.
TEST_F(PolicyRun, GoesOnToTheBit) {
  write_file_atomically(path("rollouts.jsonl"), lines(false), true);
  train_with(policy("grpo", "whole"));
  PolicyOptions part = policy("grpo", "parts");
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 2;
  train_with(part);
  part.run.length.exit_interval.reset();
  train_with(part);
  EXPECT_EQ(read_file(path("parts/reference.json")), read_file(path("whole/reference.json")));
  int compared = 0;
  for (const auto& file : fs::directory_iterator(path("whole/iter_0000006"))) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".distcp")) continue;
    EXPECT_TRUE(read_file(path("parts/iter_0000006/") + name) == read_file(file.path().string()))
        << name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

// Where nothing is known of who wrote the texts, every ratio is 1 in each step, and where the
// reference is the model itself there is no divergence in the first.
TEST_F(PolicyRun, BeginsOnPolicy) {
  std::string unknown = lines(false);
  for (std::size_t at = 0; (at = unknown.find(R"("log_probs")", at)) != unknown.npos;)
    unknown.replace(at, 11, R"("ignored")");
  write_file_atomically(path("rollouts.jsonl"), unknown, true);
  PolicyOptions o = policy("dapo", "run");
  o.estimate_weight = "generated";
  o.take_losses();
  expect_refused(o, Exit::bad_data, "which --kl-weight generated is of");
  o.estimate_weight = "ratio";
  o.take_losses();
  o.run.report.log_interval = 1;
  train_with(o);
  const std::string log = read_file(path("run/run.jsonl"));
  const auto told = [&](const std::string& member) {
    std::vector<double> numbers;
    const std::string key = "\"" + member + "\":";
    for (std::size_t at = 0; (at = log.find("\"event\":\"step\"", at)) != log.npos; ++at)
      numbers.push_back(std::stod(log.substr(log.find(key, at) + key.size())));
    return numbers;
  };
  ASSERT_EQ(told("ratio"), std::vector<double>(6, 1.0));
  EXPECT_EQ(told("kl")[0], 0);
  EXPECT_GT(told("kl")[1], 0);
}

// A rule gives the texts the rewards that their lines would have: "1" is the answer to none but
// one of each group.
TEST_F(PolicyRun, RulesReward) {
  std::string by_line, by_rule;
  for (int i = 0; i < 8; ++i) {
    const std::string text =
        concat(R"({"prompt_ids":[5],"completion_ids":[)", 16 + i % 2, R"(],"answer":"1",)");
    by_line += concat(text, R"("reward":)", 2 * (1 - i % 2), "}\n");
    by_rule += text + "\"reward\":5}\n";
  }
  std::vector<LayoutRun> runs;
  for (const bool rules : {false, true}) {
    write_file_atomically(path("rollouts.jsonl"), rules ? by_rule : by_line, true);
    PolicyOptions o = policy();
    if (rules) o.rewards = {"number=2"};
    runs.push_back(run_of(o, 2));
  }
  EXPECT_EQ(largest_difference(runs[0], runs[1]).value, 0);
}

// Steps that share texts learn from them in their order, as often as was asked for; nothing counts
// of a text that was cut.
TEST_F(PolicyRun, SamplesOfSeveralPasses) {
  std::vector<Example> texts;
  auto rollouts = std::make_shared<std::vector<Rollout>>();
  for (std::int32_t i = 0; i < 8; ++i) {
    Rollout& one = rollouts->emplace_back();
    one.text.ids = {10 + i, 20, 21};
    one.text.learnt = {false, true, true};
    one.advantages = {static_cast<float>(i), static_cast<float>(i)};
    one.truncated = i % 2 == 1;
    texts.push_back(one.text);
  }
  const auto samples_of = [&](const PolicySamples::How& how) {
    return PolicySamples(
        std::make_unique<PackedSamples>(
            "", std::make_shared<const Packed>(pack_steps(texts, Packing::none, 4, 4)),
            PackedSamples::Order{}),
        rollouts, std::make_shared<const std::vector<double>>(), how);
  };
  const PolicySamples samples =
      samples_of({.passes = {.texts = 4, .times = 2}, .masks_truncated = true});
  ASSERT_EQ(samples.size(), 16);
  const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(bytes));
  const Fields one = fields_in(buffer.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
  for (std::int64_t k = 0; k < 16; ++k) {
    samples.get(k, one);
    const std::int32_t expected[] = {0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7};
    EXPECT_EQ(one.span<float>(Field::values)[0], expected[k]);
    EXPECT_EQ(one.span<std::int32_t>(Field::ids)[0], 10 + expected[k]);
    EXPECT_EQ(one.span<float>(Field::loss_mask)[0], expected[k] % 2 == 1 ? 0 : 1);
  }
}

// Texts of a step share samples, behind which empty ones follow up to the number of its texts.
TEST_F(PolicyRun, StepsArePacked) {
  std::vector<Example> texts;
  auto rollouts = std::make_shared<std::vector<Rollout>>();
  const std::size_t sizes[] = {3, 2, 4, 5, 2, 2, 2, 2};
  for (std::int32_t i = 0; i < 8; ++i) {
    Rollout& one = rollouts->emplace_back();
    for (std::size_t t = 0; t < sizes[i]; ++t) {
      one.text.ids.push_back(10 * (i + 1) + static_cast<std::int32_t>(t));
      one.text.learnt.push_back(t > 0);
      if (t > 0) one.old.push_back(-static_cast<float>(10 * i + static_cast<std::int32_t>(t)));
    }
    one.advantages.assign(one.old.size(), static_cast<float>(i));
    texts.push_back(one.text);
  }
  const PolicySamples samples(
      std::make_unique<PackedSamples>(
          "", std::make_shared<const Packed>(pack_steps(texts, Packing::bfd, 4, 6)),
          PackedSamples::Order{}),
      rollouts, std::make_shared<const std::vector<double>>(), {.packing = Packing::bfd});
  ASSERT_EQ(samples.size(), 8);
  EXPECT_EQ(samples.filled(0, 4), 3);
  EXPECT_EQ(samples.filled(4, 4), 2);
  const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(bytes));
  const Fields one = fields_in(buffer.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
  std::vector<bool> seen(8);
  std::vector<double> said;
  for (std::int64_t k = 0; k < 8; ++k) {
    samples.get(k, one);
    const auto ids = one.span<std::int32_t>(Field::ids),
               lengths = one.span<std::int32_t>(Field::lengths);
    const auto mask = one.span<float>(Field::loss_mask), values = one.span<float>(Field::values),
               others = one.span<float>(Field::reference);
    for (const std::int32_t id : ids) said.push_back(id);
    std::size_t at = 0;
    for (std::size_t text = 0; text < lengths.size() && lengths[text] > 0; ++text) {
      const auto i = static_cast<std::size_t>(ids[at] / 10 - 1);
      EXPECT_EQ(i / 4, static_cast<std::size_t>(k / 4));
      ASSERT_EQ(static_cast<std::size_t>(lengths[text]), sizes[i]);
      seen[i] = true;
      for (std::size_t t = 1; t < sizes[i]; ++t) {
        EXPECT_EQ(mask[at + t - 1], 1);
        EXPECT_EQ(values[at + t - 1], static_cast<float>(i));
        EXPECT_EQ(others[at + t - 1], -static_cast<float>(10 * i + t));
        EXPECT_EQ(others[6 + at + t - 1], kUnknown);
      }
      at += sizes[i];
      EXPECT_EQ(mask[at - 1], 0);
    }
    if (k == 3 || k > 5) {
      EXPECT_EQ(at, 0U);
    }
  }
  EXPECT_EQ(std::ranges::count(seen, true), 8);
  const std::vector<double> of_texts = samples.of_texts(said);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t t = 0; t < sizes[i]; ++t)
      EXPECT_EQ(of_texts[6 * i + t], static_cast<double>(10 * (i + 1) + t));
}

// A text ends by its last token, unless it says that it was cut or that token ends none.
TEST_F(PolicyRun, KnowsWhichTextsWereCut) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(policy().tokenizer);
  const int end = tokenizer->eod();
  std::string lines;
  const auto add = [&](int last, const char* more) {
    lines += concat(R"({"prompt_ids":[5],"completion_ids":[16,)", last, R"(],"answer":"1")", more,
                    "}\n");
  };
  add(end, "");
  add(17, "");
  add(end, R"(,"truncated":true)");
  add(17, R"(,"truncated":false)");
  write_file_atomically(path("rollouts.jsonl"), lines, true);
  const auto read = [&](const char* reward) {
    return read_rollouts({path("rollouts.jsonl")},
                         {.group = 4, .seq_length = 8, .rewards = reward_rules({reward})},
                         *tokenizer);
  };
  const auto all = read("regex:^1$");
  ASSERT_EQ(all.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].truncated, i == 1 || i == 2) << i;
    EXPECT_EQ(all[i].reward, i == 1 ? 0 : 1) << i;
  }
}

// Of a text of several turns rules judge what the policy said last; and who said how likely it was
// also generated it.
TEST_F(PolicyRun, KnowsWhatThePolicySaidLast) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(policy().tokenizer);
  std::string lines;
  const auto add = [&](const std::string& ids, const char* mask) {
    lines += concat(R"({"prompt_ids":[5],"completion_ids":[)", ids, R"(],"completion_mask":[)",
                    mask, R"(],"old_log_probs":[-1,-2,-3]})", "\n");
  };
  const std::string end = std::to_string(tokenizer->eod());
  add("17," + end + ",18,16,16", "1,1,0,0,1");
  add("17,18,16," + end, "1,0,1,1");
  add("17," + end + ",16,18", "1,1,1,0");
  add("16,18,17," + end, "1,0,1,1");
  write_file_atomically(path("rollouts.jsonl"), lines, true);
  const auto all = read_rollouts(
      {path("rollouts.jsonl")},
      {.group = 4, .seq_length = 8, .rewards = reward_rules({"regex:^1$"})}, *tokenizer);
  ASSERT_EQ(all.size(), 4U);
  const bool truncated[] = {true, false, true, false};
  const double rewards[] = {1, 1, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].truncated, truncated[i]) << i;
    EXPECT_EQ(all[i].reward, rewards[i]) << i;
    EXPECT_EQ(all[i].generated, (std::vector<float>{-1, -2, -3})) << i;
  }
}

TEST_F(PolicyRun, RefusesWhatIsNoRollout) {
  struct Wrong {
    const char *from, *to, *what;
  };
  const std::string right = lines(true);
  for (const Wrong& wrong :
       {Wrong{R"("prompt_ids":[)", R"("prompt_ids":[7,)", "is another prompt than line 1's"},
        {R"("completion_ids":[)", R"("completion_ids":[400,)", "expected tokens from 0 to 379"},
        {R"("completion_ids":[)", R"("completion_ids":[1,)", " numbers of "},
        {R"("log_probs":[-)", R"("log_probs":[)", "none above 0"},
        {R"("prompt_ids")", R"("prompt")", "prompt_ids"}}) {
    std::string lines = right;
    const std::size_t second = lines.find('\n') + 1;
    lines.replace(lines.find(wrong.from, second), std::string(wrong.from).size(), wrong.to);
    write_file_atomically(path("rollouts.jsonl"), lines, true);
    expect_refused(policy(), Exit::bad_data, wrong.what);
    expect_refused(policy(), Exit::bad_data, "rollouts.jsonl:2: ");
  }
  write_file_atomically(path("rollouts.jsonl"), right, true);
  PolicyOptions of_values = policy();
  of_values.advantage = "gae";
  of_values.take_losses();
  expect_refused(of_values, Exit::bad_data, R"(rollouts.jsonl:1: no "values")");
  PolicyOptions o = policy();
  o.num_generations = 3;
  o.run.batch.global_batch_size = 3;
  expect_refused(o, Exit::bad_data, "is another prompt");
  o = policy();
  o.run.batch.global_batch_size = 3;
  expect_refused(o, Exit::bad_config, "no multiple of --num-generations 2");
  o = policy();
  o.model.output_bias = true;
  o.sampling.temperature = 0.5;
  expect_refused(o, Exit::bad_config, "--temperature 0.5: a model whose output layer has a bias");
}

}  // namespace
}  // namespace mt
