// Runs that learn a value head beside the policy, by which each token is judged.
#include <filesystem>

#include "model/config/model_config.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/policy/drawing_run.h"
#include "train/run/to_load.h"

namespace mt {
namespace {

class ValueRun : public SameDrawing {
 protected:
  // Four steps, of which two share what is drawn, each twice.
  PolicyOptions valued(const std::string& save) const {
    PolicyOptions o = several(save);
    o.advantage = "gae";
    o.of_values.weight = 0.5;
    o.run.schedule.lr = 1e-2;
    o.run.report.log_interval = 1;
    o.take_losses();
    return o;
  }
  // Of each line of a kept step.
  std::vector<double> first_values(const std::string& run, int number) const {
    const std::string lines = step(run, number), key = "\"values\":[";
    std::vector<double> all;
    for (std::size_t at = 0; (at = lines.find(key, at)) != lines.npos; ++at)
      all.push_back(std::stod(lines.substr(at + key.size())));
    EXPECT_GT(all.size(), 0U);
    return all;
  }
};

// What a value head says of texts is stored with them, the first time zeros, and nothing else is
// needed to learn the same.
TEST_F(ValueRun, LearnsWhatItStores) {
  train_with(valued("drawn"));
  for (const double first : first_values("drawn", 1)) EXPECT_EQ(first, 0);
  bool learnt = false;
  for (const double first : first_values("drawn", 5)) learnt |= first != 0;
  EXPECT_TRUE(learnt);
  const std::vector<double> ratios = told("drawn", "ratio"), losses = told("drawn", "value_loss");
  ASSERT_EQ(ratios.size(), 8U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ratios[i] == 1, i % 4 == 0) << i;
  EXPECT_LT(losses[2], losses[0]);  // of the same texts, for the second time
  PolicyOptions stored = valued("stored");
  stored.prompts.clear();
  stored.rewards.clear();
  stored.save_rollouts.clear();
  for (const int i : {1, 5})
    stored.rollouts.push_back(path(concat("drawn-rollouts/step-000000", i, ".jsonl")));
  stored.take_losses();
  train_with(stored);
  expect_same_values("drawn", "stored", 8);
}

// The critic is a part of the checkpoint, as are its moments: a run goes on to the bit, also
// between steps that share texts, and none goes on without it.
TEST_F(ValueRun, GoesOnToTheBit) {
  train_with(valued("whole"));
  PolicyOptions part = valued("parts");
  part.save_rollouts.clear();
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 3;
  for (int i = 0; i < 3; ++i) train_with(part);
  expect_same_values("whole", "parts", 8);

  PolicyOptions without = several("parts");
  without.run.checkpoint.load = without.run.checkpoint.save;
  without.run.length.train_iters = 9;
  try {
    train_with(without);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_NE(std::string(error.what()).find("is of a run with a value head"), std::string::npos)
        << error.what();
  }
  without.run.checkpoint.save = path("anew");
  without.save_rollouts = path("anew-rollouts");
  without.run.checkpoint.finetune = true;
  train_with(without);
  PolicyOptions again = valued("again");  // a head that begins anew beside weights that do not
  again.run.checkpoint.load = path("anew");
  again.run.checkpoint.finetune = true;
  train_with(again);
  for (const double first : first_values("again", 1)) EXPECT_EQ(first, 0);
}

class ValueLayouts : public ValueRun, public testing::WithParamInterface<FinetuneLayout> {};
INSTANTIATE_TEST_SUITE_P(
    All, ValueLayouts,
    testing::ValuesIn(some_layouts(
        {{.tensor = 2, .pipeline = 2, .shares_rows = true},
         {.data = 2, .distributed = true, .sharding = "optim_grads_params"},
         {.data = 2, .tensor = 2},
         {.pipeline = 2, .context = 2},
         {.data = 2, .tensor = 2, .context = 2, .shares_rows = true, .distributed = true}},
        2)),
    [](const auto& layout) { return layout.param.name(); });

TEST_P(ValueLayouts, AsOneRank) {
  const auto with = [&](const std::string& name, const FinetuneLayout& layout) {
    PolicyOptions o = valued(name);
    o.run.compute.dtype = "fp64";
    o.run.schedule.lr = 1e-4;  // by which no other token is drawn
    o.packing = "bfd";
    layout.divide(o.run);
    train_with(o);
  };
  with("alone", {});
  with("divided", GetParam());
  for (const char* const member : {"loss", "grad_norm", "value_loss", "values_clipped"}) {
    const std::vector<double> got = told("divided", member), expected = told("alone", member);
    ASSERT_EQ(got.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i])))
          << member << " " << i;
  }
}

// Beside adapters the head learns, too, and goes with them into the run's checkpoints.
TEST_F(ValueRun, LearnsBesideAdapters) {
  PolicyOptions start = drawing("start");
  start.run.length.train_iters = 1;
  train_with(start);
  const auto adapters = [&](const std::string& name) {
    PolicyOptions o = valued(name);
    o.run.checkpoint.load = path("start");
    o.run.checkpoint.finetune = true;
    o.stored = stored_settings(o.run.checkpoint, 0);
    o.model.lora_rank = 2;
    return o;
  };
  train_with(adapters("whole"));
  bool learnt = false;
  for (const double first : first_values("whole", 5)) learnt |= first != 0;
  EXPECT_TRUE(learnt);
  PolicyOptions part = adapters("parts");
  part.run.length.exit_interval = 4;
  train_with(part);
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.checkpoint.finetune = false;
  part.stored = stored_settings(part.run.checkpoint, 0);
  train_with(part);
  expect_same_values("whole", "parts", 8);
}

}  // namespace
}  // namespace mt
