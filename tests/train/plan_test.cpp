// Plans: what travels between ranks, how long steps take and what memory they need.
#include "train/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/base/scratch.h"
#include "tests/train/small_plan.h"
#include "train/plan/short_steps.h"

namespace mt {
namespace {

const GroupMessages* find(const RankPlan& rank, const char* group, const char* collective) {
  const auto found = std::ranges::find_if(rank.messages, [&](const GroupMessages& m) {
    return m.group == group && m.collective == collective;
  });
  return found == rank.messages.end() ? nullptr : &*found;
}

TEST(Plan, MessagesByGroupAreAllMessages) {
  PretrainOptions o = small_model();
  o.run.ranks.count = 16;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  o.run.ranks.parallel.context_parallel_size = 2;
  o.run.optimizer.use_distributed_optimizer = true;
  for (const RankPlan& rank : plan_of(o).pipeline) {
    double count = 0, bytes = 0;
    for (const GroupMessages& m : rank.messages) {
      count += m.count;
      bytes += m.bytes;
    }
    EXPECT_EQ(count, rank.step.messages);
    EXPECT_NEAR(bytes, rank.step.message_bytes, 1e-9 * bytes);
  }
}

// A step of many micro-batches costs what their number says, and takes no longer to be planned.
void expect_more_of_the_same(PretrainOptions o, int micro_batches_of_many) {
  const auto plan = [&](int micro_batches) {
    o.run.batch.global_batch_size =
        std::int64_t{micro_batches} * o.run.batch.micro_batch_size *
        (o.run.ranks.count / o.run.ranks.parallel.pipeline_model_parallel_size);
    return plan_of(o);
  };
  const Plan some = plan(130), more = plan(250), many = plan(micro_batches_of_many);
  for (std::size_t rank = 0; rank < some.pipeline.size(); ++rank) {
    const RankPlan &a = some.pipeline[rank], &b = more.pipeline[rank], &c = many.pipeline[rank];
    const auto expect = [&](const char* what, double of_some, double of_more, double of_many) {
      const double expected = of_more + (of_more - of_some) / 120 * (micro_batches_of_many - 250);
      EXPECT_NEAR(of_many, expected, 1e-9 * expected) << what;
    };
    expect("FLOPs", a.step.flops, b.step.flops, c.step.flops);
    expect("bytes", a.step.bytes, b.step.bytes, c.step.bytes);
    for (std::size_t i = 0; i < kFamilies; ++i)
      expect("a family's", a.families[i].bytes, b.families[i].bytes, c.families[i].bytes);
    ASSERT_EQ(a.messages.size(), c.messages.size());
    for (std::size_t i = 0; i < a.messages.size(); ++i) {
      expect("messages", a.messages[i].count, b.messages[i].count, c.messages[i].count);
      expect("their bytes", a.messages[i].bytes, b.messages[i].bytes, c.messages[i].bytes);
      expect("their seconds", a.messages[i].seconds, b.messages[i].seconds, c.messages[i].seconds);
    }
    EXPECT_EQ(b.memory.total(), c.memory.total());
    EXPECT_EQ(c.parts.size(), many.times->schedules[rank].size() + 2);
  }
  const double expected = more.times->seconds + (more.times->seconds - some.times->seconds) / 120 *
                                                    (micro_batches_of_many - 250);
  EXPECT_NEAR(many.times->seconds, expected, 1e-3 * expected);
}

TEST(Plan, ManyMicroBatchesAreMoreOfTheSame) {
  PretrainOptions o = small_model();
  expect_more_of_the_same(o, 50'000);
  o.run.ranks.count = 4;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  o.run.optimizer.use_distributed_optimizer = true;
  o.run.optimizer.overlap_grad_reduce = o.run.optimizer.overlap_param_gather = true;
  expect_more_of_the_same(o, 10'000);
  o.run.ranks.pipeline.virtual_stages_per_rank = 2;
  expect_more_of_the_same(o, 10'000);
}

// What stands for a micro-batch is at the same place of its round, or of the step's beginning or
// end.
TEST(ShortSteps, DoWhatTheStepDoes) {
  for (const int ranks : {1, 2, 3, 8})
    for (const int chunks : {1, 2})
      for (const int group : {ranks, ranks + 3}) {
        if (chunks == 1 && group > ranks) continue;
        const PipelineLayout layout{.ranks = ranks, .chunks = chunks, .group = group, .stages = {}};
        const int many = 700 * group + ranks;
        const ShortSteps steps = ShortSteps::of(layout, many);
        ASSERT_GT(steps.more, 0);
        EXPECT_EQ(steps.second - steps.few, steps.round);
        EXPECT_EQ(steps.second + steps.more, many);
        EXPECT_EQ(steps.more % group, 0);
        for (int i = 0; i < many; ++i) {
          const int there = steps.stand_in(i);
          EXPECT_EQ(there % group, i % group);
          EXPECT_TRUE(there == i || there == i - steps.more ||
                      (there > 3 * group && there < steps.second - 3 * group));
        }
        for (int rank = 0; rank < ranks; ++rank)
          for (int chunk = 0; chunk < chunks; ++chunk)
            EXPECT_EQ(slot_count(layout.training(rank, steps.second), chunk),
                      slot_count(layout.training(rank, many), chunk));
      }
}

PretrainOptions in_eight_bits(PretrainOptions o) {
  o.run.fp8.format = "hybrid";
  o.run.fp8.recipe = "tensorwise";
  return o;
}

TEST(Plan, CountsProductsOfEightBitsWholeInHalfTheTime) {
  const Plan wide = plan_of(small_model()), narrow = plan_of(in_eight_bits(small_model()));
  EXPECT_EQ(wide.fullest().step.code_flops, 0);
  EXPECT_EQ(narrow.fullest().step.flops, wide.fullest().step.flops);
  EXPECT_GT(narrow.fullest().step.code_flops, wide.fullest().step.flops / 3);
  EXPECT_LT(narrow.fullest().step.code_flops, wide.fullest().step.flops);
}

// Rows that travel while others are multiplied are multiplied a rank's part at a time.
TEST(Plan, EightBitsAreOfWholeTilesOfRows) {
  PretrainOptions o = in_eight_bits(small_model());
  o.data.seq_length = 48;
  o.run.batch.micro_batch_size = 1;
  o.run.ranks.count = 2;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.ranks.parallel.sequence_parallel = true;
  EXPECT_EQ(error_of([&] { plan_of(o); }), "");
  o.run.ranks.parallel.tp_comm_overlap = true;
  EXPECT_EQ(error_of([&] { plan_of(o); }),
            "78 decoder.layers.0.self_attention.linear_qkv.weight: reads 24 rows of a micro-batch "
            "at a time, of which fp8 needs a multiple of 16");
}

// Four micro-batches of 2 x 64 tokens, 64 wide, in 16 bits, on each of two pipelines.
TEST(Plan, CountsMessagesOfEachGroup) {
  PretrainOptions o = small_model();
  o.run.ranks.count = 8;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  const Plan plan = plan_of(o);
  const double hidden = 2 * 64 * 64 * 2;  // bytes of a micro-batch's
  const RankPlan &first = plan.pipeline.at(0), &last = plan.pipeline.at(1);
  const GroupMessages* sent = find(first, "pipeline", "send");
  ASSERT_NE(sent, nullptr);
  EXPECT_EQ(sent->count, 4);
  EXPECT_EQ(sent->bytes, 4 * hidden);
  EXPECT_EQ(sent->ranks, 2);
  EXPECT_EQ(find(last, "pipeline", "send")->bytes, 4 * hidden);
  // Two layers: after attention and MLP, forwards and backwards; and the embedding's sum.
  const GroupMessages* summed = find(first, "tensor", "all_reduce");
  ASSERT_NE(summed, nullptr);
  EXPECT_EQ(summed->count, 4 * (2 * 4 + 1));
  EXPECT_EQ(summed->bytes, 4 * (2 * 4 + 1) * hidden);  // 2 (n-1)/n of two
  // Gradients in f32, of what is not shared and half of what is.
  const GroupMessages* reduced = find(first, "data", "all_reduce");
  ASSERT_NE(reduced, nullptr);
  EXPECT_GE(reduced->bytes, static_cast<double>(first.memory.gradients) - 4096);
  EXPECT_EQ(find(first, "context", "send"), nullptr);
}

// Half the memory and half the bytes to sum, and less for Adam to read.
TEST(Plan, CountsGradientsInBf16) {
  PretrainOptions whole = small_model();
  whole.run.ranks.count = 2;
  PretrainOptions reduced = whole;
  reduced.run.optimizer.grad_reduce_in_bf16 = true;
  PretrainOptions shared = whole;
  shared.run.optimizer.use_distributed_optimizer = shared.run.optimizer.precision_aware = true;
  PretrainOptions kept = shared;
  kept.run.optimizer.main_grads_dtype = "bf16";
  const auto expect_halves = [](const PretrainOptions& in_bf16, const PretrainOptions& in_fp32,
                                const char* sum) {
    const RankPlan halves = plan_of(in_bf16).fullest(), wholes = plan_of(in_fp32).fullest();
    EXPECT_EQ(halves.memory.gradients, wholes.memory.gradients / 2);
    EXPECT_EQ(halves.memory.optimizer, wholes.memory.optimizer);
    EXPECT_NEAR(find(halves, "data", sum)->bytes, find(wholes, "data", sum)->bytes / 2, 100);
    const auto bytes = [](const RankPlan& rank) {
      return rank.families[static_cast<std::size_t>(Family::optimizer)].bytes;
    };
    EXPECT_EQ(bytes(halves) * 30, bytes(wholes) * 28);
  };
  expect_halves(reduced, whole, "all_reduce");
  expect_halves(kept, shared, "reduce_scatter");
}

// 2 bytes of 12, and a scale and its successor for each parameter; Adam reads twice what is scaled.
TEST(Plan, CountsMainWeightsInFp16) {
  PretrainOptions whole = small_model();
  whole.run.optimizer.use_distributed_optimizer = whole.run.optimizer.precision_aware = true;
  PretrainOptions scaled = whole;
  scaled.run.optimizer.main_params_dtype = "fp16";
  const RankPlan less = plan_of(scaled).fullest(), more = plan_of(whole).fullest();
  EXPECT_NEAR(static_cast<double>(less.memory.optimizer),
              static_cast<double>(more.memory.optimizer) * 10 / 12, 2000);
  const auto bytes = [](const RankPlan& rank) {
    return rank.families[static_cast<std::size_t>(Family::optimizer)].bytes;
  };
  EXPECT_NEAR(bytes(less) * 30, bytes(more) * (30 - 4 + 14), bytes(more) * 0.01);
}

TEST(Plan, FamiliesAndWaitingAreTheStep) {
  PretrainOptions o = small_model();
  o.run.ranks.count = 8;
  o.run.ranks.parallel.pipeline_model_parallel_size = 4;
  const Plan plan = plan_of(o);
  ASSERT_TRUE(plan.times);
  const StepTimes& t = *plan.times;
  const double sum = std::accumulate(t.families.begin(), t.families.end(), 0.0);
  EXPECT_NEAR(sum + t.launches + t.waiting, t.seconds, 1e-12);
  EXPECT_GT(t.idle, 0);
  EXPECT_NEAR(plan.mfu(), plan.model_flops / (8 * t.seconds * plan.machine->peak), 1e-12);
  EXPECT_EQ(plan.tokens, 16 * 64);
}

double seconds_of(const PretrainOptions& o) { return plan_of(o).times->seconds; }

TEST(Plan, FasterMachinesAreNotSlower) {
  PretrainOptions o = small_model();
  o.run.ranks.count = 16;
  o.run.ranks.parallel.tensor_model_parallel_size = 2;
  o.run.ranks.parallel.pipeline_model_parallel_size = 2;
  const double usual = seconds_of(o);
  const auto with = [&](auto MachineOptions::*rate, double value) {
    PretrainOptions other = o;
    other.plan.machine.*rate = value;
    return seconds_of(other);
  };
  EXPECT_LT(with(&MachineOptions::tflops, 2000), usual);
  EXPECT_LT(with(&MachineOptions::memory_bandwidth, 9000), usual);
  EXPECT_LT(with(&MachineOptions::link_latency, 1), usual);
  EXPECT_LT(with(&MachineOptions::network_latency, 1), usual);
  EXPECT_GT(with(&MachineOptions::link_bandwidth, 0.1), usual);
  EXPECT_GT(with(&MachineOptions::network_bandwidth, 0.1), usual);
  EXPECT_GT(with(&MachineOptions::launch, 100), usual);
}

TEST(Plan, OverlapHidesReductions) {
  PretrainOptions o = small_model();
  o.model.hidden_size = 1024;
  o.model.max_position_embeddings = o.data.seq_length = 1024;
  o.run.batch.micro_batch_size = 8;
  o.run.batch.global_batch_size = 64;
  o.run.ranks.count = 8;
  o.run.optimizer.use_distributed_optimizer = true;
  const double usual = seconds_of(o);
  o.run.optimizer.overlap_grad_reduce = true;
  o.run.optimizer.ddp_bucket_size = 1 << 24;
  const double reduced = seconds_of(o);
  EXPECT_LT(reduced, usual);
  o.run.optimizer.overlap_param_gather = true;
  EXPECT_LT(seconds_of(o), reduced);
}

TEST(Plan, EachGpuHasItsOwnMemory) {
  PretrainOptions o = small_model();
  o.plan.machine.memory = 2;
  const Plan one = plan_of(o);
  o.run.ranks.count = 8;
  const Plan eight = plan_of(o);
  EXPECT_EQ(one.device_memory, std::size_t{2} << 30);
  EXPECT_TRUE(one.fits() && eight.fits());
  EXPECT_EQ(one.fullest().memory.nccl, 0U);
  EXPECT_EQ(eight.fullest().memory.nccl >> 20, 374U + 24 + 486);  // NCCL, numbers, gradients
  EXPECT_EQ(one.fullest().memory.total() + eight.fullest().memory.nccl,
            eight.fullest().memory.total());
  EXPECT_EQ(eight.room(), std::size_t{2} << 30);
  o.plan.machine.memory = 0.001;
  EXPECT_FALSE(plan_of(o).fits());
}

// The runs that fixed the constants of train/plan/machine.h (mt-performance(7)), in milliseconds.
struct MeasuredRun {
  const char* name;
  double milliseconds;
  bool llama;
  std::int64_t layers, hidden, heads, seq_length, vocab, micro_batch, micro_batches;
};
constexpr MeasuredRun kMeasured[] = {
    {"1.7B", 301.6, false, 24, 2048, 16, 4096, 131072, 4, 1},
    {"1.7B, 4 micro-batches", 1154.3, false, 24, 2048, 16, 4096, 131072, 4, 4},
    {"Llama-style 1.5B", 249.7, true, 16, 2048, 32, 4096, 128256, 4, 1},
    {"Llama-style 3.6B", 689.8, true, 28, 3072, 24, 8192, 128256, 2, 1},
    {"GPT-2 124M", 111.7, false, 12, 768, 12, 1024, 50304, 64, 1}};

TEST(Plan, GivesBackTheRunsThatFixedItsConstants) {
  for (const MeasuredRun& run : kMeasured) {
    PretrainOptions o;
    o.model.num_layers = run.layers;
    o.model.hidden_size = run.hidden;
    o.model.num_attention_heads = run.heads;
    o.model.max_position_embeddings = run.seq_length;
    o.model.vocab_size = run.vocab;
    o.model.attention_dropout = o.model.hidden_dropout = 0;
    if (run.llama) {
      o.model.position_embedding_type = "rope";
      o.model.normalization = "RMSNorm";
      o.model.swiglu = o.model.untie_embeddings_and_output_weights = true;
      o.model.add_bias_linear = false;
      o.model.group_query_attention = true;
      o.model.num_query_groups = 8;
      o.model.ffn_hidden_size = 8192;
    }
    o.data.seq_length = run.seq_length;
    o.run.batch.micro_batch_size = run.micro_batch;
    o.run.batch.global_batch_size = run.micro_batch * run.micro_batches;
    o.run.compute.bf16 = true;
    o.plan.wanted = true;
    o.plan.machine.name = "h200";
    EXPECT_NEAR(1e3 * seconds_of(o), run.milliseconds, 0.02 * run.milliseconds) << run.name;
  }
}

}  // namespace
}  // namespace mt
