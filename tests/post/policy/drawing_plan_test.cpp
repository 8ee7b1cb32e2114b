// What a plan says of a step whose texts the model itself writes.
#include <gtest/gtest.h>

#include "post/policy/policy_task.h"
#include "train/plan/plan.h"

namespace mt {
namespace {

PolicyOptions llama(std::int64_t layers, std::int64_t hidden, std::int64_t ffn) {
  PolicyOptions o;
  o.model.num_layers = layers;
  o.model.hidden_size = hidden;
  o.model.ffn_hidden_size = ffn;
  o.model.num_attention_heads = 32;
  o.model.group_query_attention = true;
  o.model.num_query_groups = 8;
  o.model.kv_channels = hidden / 32;
  o.model.position_embedding_type = "rope";
  o.model.normalization = "RMSNorm";
  o.model.swiglu = o.model.untie_embeddings_and_output_weights = true;
  o.model.add_bias_linear = false;
  o.model.attention_dropout = o.model.hidden_dropout = 0;
  o.model.vocab_size = 128256;
  o.model.max_position_embeddings = 4096;
  o.run.batch.micro_batch_size = 1;
  o.run.compute.bf16 = true;
  o.plan.wanted = true;
  o.plan.machine.name = "h200";
  o.prompts = {"prompts.jsonl"};
  return o;
}

Plan plan_of(PolicyOptions o) {
  o.take_losses();
  o.complete();
  return make_plan(o.run, PolicyTask(o), o.plan, PlanDetail::without_largest);
}

// Of an 8B on an H200, whose time a token was measured for 256 texts behind 128 tokens, and behind
// 1,536 (train/plan/drawing_plan.h).
TEST(DrawingPlan, GivesBackWhatWasMeasured) {
  for (const auto& [before, milliseconds] : {std::pair(128, 14.3), std::pair(1536, 26.0)}) {
    PolicyOptions o = llama(32, 4096, 14336);
    o.num_generations = 256;
    o.run.batch.global_batch_size = 256;
    o.max_completion_length = 100;
    o.seq_length = before + 50;  // half of which a token has behind it, in the mean
    o.plan.machine.memory = 1000;
    const Plan plan = plan_of(o);
    ASSERT_TRUE(plan.drawing);
    EXPECT_EQ(plan.drawing->at_once, 256);
    EXPECT_NEAR(1e3 * plan.drawing->generation / 100, milliseconds, 0.03 * milliseconds) << before;
  }
}

// Ranks that share matrices draw together by these; those of several stages have a copy of their
// parts of all layers, which is put together anew for each draw, and those that draw by other parts
// of these.
TEST(DrawingPlan, CountsCopiesAndPhases) {
  PolicyOptions o = llama(2, 512, 1024);
  o.num_generations = 4;
  o.run.batch.global_batch_size = 16;
  o.steps_per_generation = 2;
  o.seq_length = 64;
  o.max_completion_length = 48;
  const Plan alone = plan_of(o);
  ASSERT_TRUE(alone.drawing);
  EXPECT_EQ(alone.fullest().memory.copy, 0U);
  EXPECT_EQ(alone.drawing->refit, 0);
  EXPECT_EQ(alone.drawing->texts, 32);
  EXPECT_EQ(alone.drawing->work.prompt, 16);
  EXPECT_DOUBLE_EQ(alone.drawing->training, 2 * alone.times->seconds);
  EXPECT_GT(alone.drawing->log_probs, 0.1 * alone.drawing->training);
  EXPECT_LT(alone.drawing->log_probs, 0.5 * alone.drawing->training);
  // 2 layers, 8 heads of keys and as many of values, of 16 channels and two bytes.
  EXPECT_EQ(alone.drawing->bytes_of_text, 64U * 2 * 2 * 8 * 16 * 2);

  o.run.ranks.count = 4;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  const Plan shared = plan_of(o);
  EXPECT_EQ(shared.fullest().memory.copy, 0U);
  EXPECT_EQ(shared.drawing->refit, 0);
  EXPECT_EQ(shared.drawing->work.together, 2);
  EXPECT_EQ(shared.drawing->texts, 16);
  EXPECT_EQ(2 * shared.drawing->bytes_of_text, alone.drawing->bytes_of_text);

  o.inference_tensor_ranks = 1;
  const Plan apart = plan_of(o);
  const double parameters = static_cast<double>(alone.parameters);
  EXPECT_NEAR(static_cast<double>(apart.fullest().memory.copy), 2 * parameters, 0.01 * parameters);
  EXPECT_EQ(apart.drawing->texts, 8);
  EXPECT_GT(apart.drawing->refit, 0);
  EXPECT_LT(apart.drawing->generation, alone.drawing->generation);

  o.inference_tensor_ranks = 4;
  const Plan more = plan_of(o);  // which have room to change what is divided in, of some matrices
  EXPECT_GT(static_cast<double>(more.fullest().memory.copy), parameters / 2);
  EXPECT_LT(static_cast<double>(more.fullest().memory.copy), 5 * parameters);
  EXPECT_EQ(more.drawing->work.together, 4);
  o.inference_tensor_ranks.reset();

  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  const Plan staged = plan_of(o);
  EXPECT_NEAR(static_cast<double>(staged.fullest().memory.copy), parameters, 0.01 * parameters);
  EXPECT_EQ(staged.drawing->texts, 16);
  EXPECT_GT(staged.drawing->refit, 0);

  PolicyOptions experts = o;
  experts.model.family = ModelFamily::mixtral;
  experts.model.num_experts = 4;
  experts.run.ranks.parallel.sequence_parallel = true;
  const Plan mixed = plan_of(experts);
  const double all = static_cast<double>(mixed.parameters);
  EXPECT_NEAR(static_cast<double>(mixed.fullest().memory.copy), all, 0.01 * all);
  EXPECT_EQ(mixed.drawing->work.together, 2);

  o.prompts.clear();
  EXPECT_FALSE(plan_of(o).drawing);
  EXPECT_EQ(plan_of(o).fullest().memory.copy, 0U);
}

// Texts in flight keep their keys and values while steps learn; ranks that draw for others have the
// model and those of what they draw, and what they do meanwhile takes none of the others' time.
TEST(DrawingPlan, CountsWhatIsDrawnMeanwhile) {
  PolicyOptions o = llama(2, 512, 1024);
  o.num_generations = 4;
  o.run.batch.global_batch_size = 16;
  o.seq_length = 64;
  o.max_completion_length = 48;
  o.max_lag = 3;
  const Plan ahead = plan_of(o);
  EXPECT_EQ(ahead.fullest().memory.texts, 0U);
  o.in_flight = true;
  const Plan flying = plan_of(o);
  EXPECT_EQ(flying.fullest().memory.texts, 3 * 16 * ahead.drawing->bytes_of_text);
  EXPECT_EQ(flying.fullest().memory.total() - ahead.fullest().memory.total(),
            flying.fullest().memory.texts);

  o.in_flight = false;
  o.run.compute = {};
  o.run.compute.device_name = "cpu";
  o.plan.machine = {};
  o.plan.machine.tflops = 1;  // these are not measured then
  o.plan.machine.memory_bandwidth = 20;
  const Plan both = plan_of(o);
  EXPECT_EQ(both.drawers, 0);
  o.run.ranks.count = 3;
  o.generation_ranks = 2;
  const Plan apart = plan_of(o);
  EXPECT_EQ(apart.ranks, 1);
  EXPECT_EQ(apart.drawers, 2);
  const std::size_t kept = 4 * static_cast<std::size_t>(apart.parameters) +
                           8 * apart.drawing->bytes_of_text,
                    logits = 8 * 128256 * sizeof(float);
  EXPECT_GE(apart.of_drawer, kept + logits);
  EXPECT_LT(apart.of_drawer, kept + logits + (std::size_t{1} << 20));
  EXPECT_EQ(apart.total(), both.total() + 2 * apart.of_drawer);
  EXPECT_EQ(apart.drawing->texts, 8);
  EXPECT_LT(apart.drawing->seconds(), apart.drawing->generation + apart.drawing->training);
}

// On GPUs each of those that draw has one of its own, with as many texts at a time as it has room
// for, and what it takes to reach the first of the others; two hosts are farther apart than one.
TEST(DrawingPlan, CountsGpusThatDrawMeanwhile) {
  PolicyOptions o = llama(8, 2048, 8192);
  o.num_generations = 8;
  o.run.batch.global_batch_size = 1024;
  o.seq_length = 2048;
  o.max_completion_length = 1024;
  o.max_lag = 1;
  const Plan both = plan_of(o);
  o.run.ranks.count = 3;
  o.generation_ranks = 2;
  const Plan apart = plan_of(o);
  const std::size_t model = 2 * static_cast<std::size_t>(apart.parameters);
  EXPECT_EQ(apart.ranks, 1);
  EXPECT_EQ(apart.drawers, 2);
  EXPECT_EQ(apart.drawing->at_once, 256);
  EXPECT_GT(apart.of_drawer, model + 256 * apart.drawing->bytes_of_text + (std::size_t{1} << 30));
  EXPECT_LT(apart.of_drawer, model + 256 * apart.drawing->bytes_of_text + (std::size_t{2} << 30));
  EXPECT_EQ(both.fullest().memory.nccl, 0U);
  EXPECT_GT(apart.fullest().memory.nccl, std::size_t{512} << 20);
  EXPECT_GT(apart.drawing->refit, 0);
  EXPECT_LT(apart.drawing->seconds(), apart.drawing->generation + apart.drawing->training);
  EXPECT_TRUE(apart.fits());

  o.plan.machine.gpus_per_node = 1;
  EXPECT_GT(plan_of(o).drawing->refit, apart.drawing->refit);
  o.plan.machine.memory = 8;
  const Plan narrow = plan_of(o);
  EXPECT_LT(narrow.drawing->at_once, 256);
  EXPECT_TRUE(narrow.drawers_fit());
  const std::size_t of_text = narrow.drawing->bytes_of_text + 128256 * sizeof(float);
  EXPECT_LT(narrow.device_memory - narrow.of_drawer, 2 * of_text);  // as many as there is room for
  EXPECT_GT(narrow.drawing->generation, apart.drawing->generation);
  o.plan.machine.memory = 2;
  EXPECT_FALSE(plan_of(o).drawers_fit());
}

// A search leaves out ranks that share sequences where ratios are of whole texts.
TEST(DrawingPlan, SequencesAreWholeWhereRatiosAreOfThem) {
  PolicyOptions o = llama(2, 512, 1024);
  o.num_generations = 4;
  o.run.batch.global_batch_size = 16;
  o.seq_length = 64;
  o.take_losses();
  EXPECT_NE(PolicyTask(o).changed({.context_ranks = 2}), nullptr);
  o.level = "sequence";
  o.take_losses();
  EXPECT_NE(PolicyTask(o).changed({.context_ranks = 1}), nullptr);
  try {
    PolicyTask(o).changed({.context_ranks = 2});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_EQ(std::string(error.what()),
              "--context-parallel-size 2: not with --importance-sampling-level sequence, whose "
              "ratios are of whole texts");
  }
}

}  // namespace
}  // namespace mt
