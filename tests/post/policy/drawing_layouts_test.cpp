// Runs of several ranks that draw their own texts draw and learn what one rank does, whichever
// layout they learn in, and however many draw together.
#include "model/config/model_config.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/policy/drawing_run.h"
#include "train/run/to_load.h"

namespace mt {
namespace {

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

}  // namespace
}  // namespace mt
