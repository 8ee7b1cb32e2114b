// The largest tensors of a plan, and what would save memory.
#include "train/plan/out_of_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/config/model_config.h"
#include "tests/support/matches.h"
#include "train/options/pretrain_options.h"
#include "train/run/pretraining.h"

namespace mt {
namespace {

PretrainOptions sample() {
  PretrainOptions options;
  options.model.num_layers = 8;
  options.model.hidden_size = 64;
  options.model.num_attention_heads = 2;
  options.model.max_position_embeddings = 128;
  options.model.vocab_size = 256;
  options.data.seq_length = 128;
  options.run.batch.micro_batch_size = 8;
  options.run.batch.global_batch_size = 64;
  options.run.compute.device_name = "cpu";
  options.plan.wanted = true;
  return options;
}

Pretraining task_of(const PretrainOptions& options) { return {options.model, options.data}; }

Plan plan_of(PretrainOptions& options) {
  options.complete();
  return make_plan(options.run, task_of(options), options.plan);
}

const LargeTensor* find(const Plan& plan, const std::string& what) {
  const auto found = std::ranges::find(plan.fullest().largest, what, &LargeTensor::what);
  return found == plan.fullest().largest.end() ? nullptr : &*found;
}

TEST(LargestTensors, AreNamedAndCounted) {
  PretrainOptions options = sample();
  const Plan plan = plan_of(options);
  ASSERT_EQ(plan.fullest().largest.size(), 10);
  EXPECT_TRUE(std::ranges::is_sorted(plan.fullest().largest, std::greater(), &LargeTensor::bytes));
  // [tokens, ffn] of each layer: what the activation reads, and what the product after it does.
  for (const char* what : {"decoder.layers.mlp.linear_fc1.weight: output, kept",
                           "decoder.layers.mlp.linear_fc2.weight: input, kept"}) {
    const LargeTensor* const tensor = find(plan, what);
    ASSERT_NE(tensor, nullptr) << what;
    EXPECT_EQ(description(*tensor), std::string("8 of float32 [1024, 256]: ") + what);
    EXPECT_EQ(tensor->bytes(), 8 * 1024 * 256 * 4);
  }
  std::size_t bytes = 0;
  for (const LargeTensor& tensor : plan.fullest().largest) bytes += tensor.bytes();
  EXPECT_LE(bytes, plan.fullest().memory.total());
  EXPECT_GT(bytes, plan.fullest().memory.total() / 2);
}

TEST(LargestTensors, AreTheWeightsOfAWideModel) {
  PretrainOptions options = sample();
  options.model.hidden_size = 512;
  options.run.batch.micro_batch_size = 1;
  options.data.seq_length = 4;
  const Plan plan = plan_of(options);
  for (const char* part : {"value", "gradient", "exp_avg", "exp_avg_sq"}) {
    const LargeTensor* const tensor =
        find(plan, concat("decoder.layers.mlp.linear_fc1.weight: ", part));
    ASSERT_NE(tensor, nullptr) << part;
    EXPECT_EQ(tensor->count, 8);
    EXPECT_EQ(tensor->bytes(), 8u * 2048 * 512 * 4);
  }
}

TEST(Savings, AreWhatTheRunsWouldNeed) {
  PretrainOptions options = sample();
  options.run.ranks.count = 2;
  const Plan plan = plan_of(options);
  const std::vector<Saving> all = savings(options.run, task_of(options), plan);
  ASSERT_EQ(all.size(), 4);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Saving::bytes));
  for (const Saving& saving : all) {
    PretrainOptions other = sample();
    other.run.ranks.count = 2;
    if (saving.option == "--micro-batch-size 4")
      other.run.batch.micro_batch_size = 4;
    else if (saving.option == "--seq-length 64")
      other.data.seq_length = 64;
    else if (saving.option == "--use-distributed-optimizer")
      other.run.optimizer.use_distributed_optimizer = true;
    else
      other.model.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
    EXPECT_EQ(plan_of(other).fullest().memory.total(), saving.bytes) << saving.option;
  }
}

TEST(Savings, OfMicroBatchesTheLargestThatFits) {
  PretrainOptions options = sample();
  Plan plan = plan_of(options);
  const auto proposed = [&] {
    for (const Saving& saving : savings(options.run, task_of(options), plan))
      if (saving.option.starts_with("--micro")) return saving.option;
    return std::string();
  };
  PretrainOptions two = sample();
  two.run.batch.micro_batch_size = 2;
  plan.device_memory = plan_of(two).fullest().memory.total();
  EXPECT_EQ(proposed(), "--micro-batch-size 2");
  plan.device_memory = 1;
  EXPECT_EQ(proposed(), "--micro-batch-size 1");
}

TEST(OutOfMemory, SaysWhatWouldSaveMost) {
  PretrainOptions options = sample();
  Plan plan = plan_of(options);
  const Log quiet(Log::Settings{.level = Log::Level::quiet});
  const auto line = [&] {
    try {
      fail_out_of_memory("too little", options.run, task_of(options), plan, quiet);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::out_of_memory);
      return std::string(error.what());
    }
  };
  EXPECT_TRUE(matches(
      line(), "too little; --recompute-granularity full .* saves most: it would need [0-9]+"));
  plan.device_memory = 1;
  EXPECT_TRUE(matches(line(), "too little; --[^;]* would need [0-9]+, which is too much too"));
}

}  // namespace
}  // namespace mt
