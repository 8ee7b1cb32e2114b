// The executor over one stage and over several, which are threads of this test.
#include "train/executor.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "model/gpt.h"
#include "ops/ops.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int64_t kSequences = 2, kLength = 12, kVocabulary = 40;

GptConfig small_config() {
  GptConfig config;
  config.num_layers = 3;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.max_position_embeddings = kLength;
  config.vocab_size = kVocabulary;
  config.make_vocab_size_divisible_by = 8;
  config.untie_embeddings_and_output_weights = true;
  config.attention_dropout = config.hidden_dropout = 0.2;
  config.complete();
  return config;
}

constexpr StepShape kShape{.micro_batch_size = kSequences,
                           .seq_length = kLength,
                           .hidden_size = 16,
                           .dtype = DType::f64,
                           .seed = 77};

// Tokens as a function of the micro-batch; some of them do not count.
std::int64_t load(int micro_batches, int micro_batch, const Batch& batch) {
  const std::int64_t tokens = kSequences * kLength;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t n = micro_batch * tokens + t;
    batch.ids.as<std::int32_t>()[t] = static_cast<std::int32_t>(n * n % kVocabulary);
    batch.labels.as<std::int32_t>()[t] = static_cast<std::int32_t>((n + 1) * (n + 1) % kVocabulary);
    batch.positions.as<std::int32_t>()[t] = static_cast<std::int32_t>(t % kLength);
    batch.loss_mask.as<double>()[t] = n % 5 == 0 ? 0 : 1;
    batch.row_weight.as<double>()[t] = batch.loss_mask.as<double>()[t] / 20 / micro_batches;
  }
  return micro_batch * kSequences;
}

StageRange range_of(const GptConfig& config, int stage, int stages) {
  const std::int64_t layers = config.num_layers;
  return {.begin = layers * stage / stages,
          .end = layers * (stage + 1) / stages,
          .first = stage == 0,
          .last = stage == stages - 1};
}

struct Result {
  double evaluated = 0, trained = 0;  // losses
  std::map<std::string, HostTensor> gradients;
  std::vector<StepMemory> measured, used;  // of each stage
};

// An evaluation, then the forward and backward of a step.
Result run(int stages, int micro_batches, const RecomputeOptions& recompute = {}) {
  Result result;
  result.measured.resize(static_cast<std::size_t>(stages));
  result.used = result.measured;
  std::mutex mutex;
  run_ranks(stages, [&](Group& pipeline) {
    const int stage = pipeline.rank();
    const World world(pipeline, {.pp = stages});
    const PipelinePlace place{.rank = stage, .ranks = stages};
    const Schedule training = one_f_one_b(place, micro_batches);
    const Schedule evaluation = forward_only(place, micro_batches);
    GptConfig config = small_config();
    config.recompute = recompute;
    const StageRanges range{range_of(config, stage, stages)};

    Stream meta(Device::meta);
    Gpt on_meta(config, range);
    on_meta.table().allocate(Device::meta, DType::f64, true);
    const auto group_on_meta = make_meta_group(stage, stages, meta);
    const StepMemory memory = measure_memory(on_meta, kShape, training, evaluation,
                                             World(*group_on_meta, {.pp = stages}), meta);

    Stream stream(Device::cpu, 1);
    Gpt model(config, range);
    model.table().allocate(Device::cpu, DType::f64, true);
    model.initialize(5, stream);
    Executor executor(model, kShape, memory, world, stream);
    const LoadBatch fill = [&](int micro_batch, const Batch& batch) {
      return load(micro_batches, micro_batch, batch);
    };
    const double evaluated = executor.run(evaluation, fill, false);
    const double trained = executor.run(training, fill, true);

    const std::lock_guard lock(mutex);
    result.evaluated += evaluated;
    result.trained += trained;
    for (const Param& row : model.table().rows())
      EXPECT_TRUE(result.gradients.emplace(row.name, clone(row.grad)).second) << row.name;
    result.measured[static_cast<std::size_t>(stage)] = memory;
    result.used[static_cast<std::size_t>(stage)] = executor.peak();
  });
  return result;
}

void expect_same_as_one_stage(int stages, int micro_batches) {
  SCOPED_TRACE(concat(stages, " stages, ", micro_batches, " micro-batches"));
  const Result one = run(1, micro_batches), several = run(stages, micro_batches);
  EXPECT_NEAR(several.evaluated, one.evaluated, 1e-12 * one.evaluated);
  EXPECT_NEAR(several.trained, one.trained, 1e-12 * one.trained);
  EXPECT_NE(one.trained, one.evaluated);  // dropout was on in training alone
  ASSERT_EQ(several.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients) {
    SCOPED_TRACE(name);
    const auto found = several.gradients.find(name);
    ASSERT_NE(found, several.gradients.end());
    EXPECT_GT(largest(gradient.view()), 0);
    EXPECT_TENSORS_NEAR(found->second.view(), gradient.view(), 1e-12);
  }
}

TEST(Executor, TwoStagesComputeWhatOneDoes) { expect_same_as_one_stage(2, 5); }
TEST(Executor, FewerMicroBatchesThanStages) { expect_same_as_one_stage(3, 2); }
TEST(Executor, OneMicroBatch) { expect_same_as_one_stage(2, 1); }

// What the same schedules need on meta is what they use, byte for byte.
TEST(Executor, UsesTheMemoryThatWasMeasured) {
  for (const int stages : {1, 2, 3})
    for (const int micro_batches : {1, 4}) {
      const Result result = run(stages, micro_batches);
      for (int stage = 0; stage < stages; ++stage) {
        SCOPED_TRACE(concat("stage ", stage, " of ", stages));
        const StepMemory& measured = result.measured[static_cast<std::size_t>(stage)];
        const StepMemory& used = result.used[static_cast<std::size_t>(stage)];
        EXPECT_EQ(used, measured) << used.keep << " " << used.layer << " " << used.deferred
                                  << " used, measured " << measured.keep << " " << measured.layer
                                  << " " << measured.deferred;
        EXPECT_EQ(measured.slots, std::min(stages - stage, micro_batches));
        EXPECT_GT(measured.keep, 0U);
        EXPECT_GT(measured.layer, 0U);
      }
    }
}

// Micro-batches in flight share the memory for what is made again.
TEST(Executor, RecomputesInStages) {
  for (const int stages : {1, 2, 3})
    for (const RecomputeOptions& recompute :
         {RecomputeOptions{.granularity = "full", .method = "uniform", .num_layers = 1},
          RecomputeOptions{.granularity = "full", .method = "block", .num_layers = 1},
          RecomputeOptions{.granularity = "selective", .modules = {"core_attn", "mlp"}}}) {
      SCOPED_TRACE(concat(stages, " stages, ", recompute.granularity, " ", recompute.method));
      const Result kept = run(stages, 4), again = run(stages, 4, recompute);
      EXPECT_EQ(again.trained, kept.trained);
      for (const auto& [name, gradient] : kept.gradients)
        EXPECT_SAME_BITS(again.gradients.at(name).view(), gradient.view()) << name;
      EXPECT_EQ(again.used, again.measured);
      for (std::size_t stage = 0; stage < kept.measured.size(); ++stage)
        EXPECT_LT(again.measured[stage].keep, kept.measured[stage].keep);
    }
}

// Two runs without zeroing between give twice the gradients of one, where they are not replaced.
TEST(Executor, AddsToGradientsOrReplacesThem) {
  const Schedule training = one_f_one_b({}, 2);
  Stream meta(Device::meta), stream(Device::cpu, 1);
  Gpt on_meta(small_config()), model(small_config());
  on_meta.table().allocate(Device::meta, DType::f64, true);
  model.table().allocate(Device::cpu, DType::f64, true);
  model.initialize(5, stream);
  const auto group = make_single_group();
  const World alone(*group, {});
  const StepMemory memory =
      measure_memory(on_meta, kShape, training, forward_only({}, 2), alone, meta);
  Executor executor(model, kShape, memory, alone, stream);
  const LoadBatch fill = [](int micro_batch, const Batch& batch) {
    return load(2, micro_batch, batch);
  };
  executor.run(training, fill, true);
  std::vector<HostTensor> once;
  for (const Param& row : model.table().rows()) once.push_back(clone(row.grad));
  const double loss = executor.run(training, fill, true);
  for (const Param& row : model.table().rows()) {
    HostTensor expected = clone(once[row.index].view());
    if (!row.gradient_replaced)
      for (double& value : expected.span<double>()) value *= 2;
    EXPECT_TENSORS_NEAR(row.grad, expected.view(), 1e-14) << row.name;
  }
  EXPECT_EQ(executor.run(training, fill, true), loss);
}

// A model that keeps what its forward and backward were shown of a micro-batch.
struct Witness : Model {
  mutable std::vector<ConstTensor> shown;
  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<Saved>(); }
  void forward(Step& s, Wire&, const Wire&, const Batch& batch, Saved*) const override {
    EXPECT_EQ(s.first_key.data(), batch.first_key.data());
    shown.push_back(s.first_key);
    set_zero(batch.loss, s.stream);
  }
  void backward(Step& s, Wire&, const Wire&, const Saved&) const override {
    shown.push_back(s.first_key);
  }
};

// Only a run with document masks has a first key a token; forward and backward see the same.
TEST(Executor, ShowsTheFirstKeysOfDocuments) {
  for (const bool masks : {false, true}) {
    StepShape shape = kShape;
    shape.document_masks = masks;
    Stream stream(Device::cpu, 1);
    const auto group = make_single_group();
    const World alone(*group, {});
    const Witness model;
    Executor executor(model, shape, {.keep = 1 << 14, .layer = 0, .deferred = 0, .slots = 1}, alone,
                      stream);
    const LoadBatch fill = [&](int, const Batch& batch) {
      EXPECT_EQ(bool(batch.first_key), masks);
      set_zero(batch.loss_mask, stream);
      return 0;
    };
    executor.run(one_f_one_b({}, 1), fill, true);
    ASSERT_EQ(model.shown.size(), 2U);
    for (const ConstTensor& first_key : model.shown) {
      EXPECT_EQ(bool(first_key), masks);
      if (!masks) continue;
      EXPECT_EQ(first_key.dtype(), DType::i32);
      EXPECT_EQ(first_key.shape(), (Shape{kSequences * kLength}));
      EXPECT_EQ(first_key.data(), model.shown.front().data());
    }
  }
}

}  // namespace
}  // namespace mt
