// The executor on one rank and on several, which are threads of this test.
#include "train/run/executor.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "data/samples/gpt_dataset.h"
#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "model/layers.h"
#include "model/pipeline_stages.h"
#include "ops/ops.h"
#include "tests/support/host_tensor.h"
#include "tests/train/two_terms.h"
#include "train/run/pipeline_layout.h"

namespace mt {
namespace {

constexpr std::int64_t kSequences = 2, kLength = 12, kVocabulary = 40;

ModelConfig small_config() {
  ModelConfig config;
  config.num_layers = 4;
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

const LanguageModelling kObjective;

StepShape shape_with(bool first_keys) {
  FieldSpecs fields = gpt_fields(kLength, first_keys);
  fields.push_back(kObjective.fields(fields).front());
  return {.micro_batch_size = kSequences, .dtype = DType::f64, .seed = 77, .fields = fields};
}
const StepShape kShape = shape_with(false);

// Tokens as a function of the micro-batch; some of them do not count.
std::int64_t load(int micro_batches, int micro_batch, const Fields& batch) {
  const std::int64_t tokens = kSequences * kLength;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t n = micro_batch * tokens + t;
    const auto put = [&](Field field, std::int64_t value) {
      batch[field].as<std::int32_t>()[t] = static_cast<std::int32_t>(value);
    };
    put(Field::ids, n * n % kVocabulary);
    put(Field::labels, (n + 1) * (n + 1) % kVocabulary);
    put(Field::positions, t % kLength);
    const double mask = n % 5 == 0 ? 0 : 1;
    batch[Field::loss_mask].as<double>()[t] = mask;
    batch[Field::weight].as<double>()[t] = mask / 20 / micro_batches;
  }
  return micro_batch * kSequences;
}

struct Result {
  double evaluated = 0, trained = 0;  // losses
  std::map<std::string, HostTensor> gradients;
  std::vector<StepMemory> measured, used;  // of each rank
};

struct What {
  int ranks = 1, micro_batches = 1;
  PipelineOptions pipeline = {};
  RecomputeOptions recompute = {};
  bool tied = false;
};

// Adds the gradients of a rank's parameters, that of a tied copy to the other's.
void add_gradients(Result& result, const ParamTable& table, bool tied) {
  for (const Param& row : table.rows()) {
    const auto found = result.gradients.find(row.name());
    if (found == result.gradients.end()) {
      result.gradients.emplace(row.name(), clone(row.grad));
      continue;
    }
    EXPECT_TRUE(tied && row.name() == "embedding.word_embeddings.weight") << row.name();
    for (std::int64_t i = 0; i < row.shape.numel(); ++i)
      found->second.view().as<double>()[i] += row.grad.as<double>()[i];
  }
}

// An evaluation, then the forward and backward of a step.
Result run(const What& what) {
  Result result;
  result.measured.resize(static_cast<std::size_t>(what.ranks));
  result.used = result.measured;
  std::mutex mutex;
  run_ranks(what.ranks, [&](Group& pipeline) {
    const int rank = pipeline.rank();
    const ParallelSizes sizes{.pp = what.ranks};
    const World world(pipeline, sizes);
    ModelConfig config = small_config();
    config.recompute = what.recompute;
    config.untie_embeddings_and_output_weights = !what.tied;
    const PipelineLayout layout =
        make_pipeline_layout(what.pipeline, what.ranks, layers_of(config));
    const Schedule training = layout.training(rank, what.micro_batches);
    const Schedule evaluation = forward_only(layout.place(rank), what.micro_batches);

    Stream meta(Device::meta);
    Gpt on_meta(config, layout.of_rank(rank));
    on_meta.table().allocate(Device::meta, DType::f64, true);
    const auto group_on_meta = make_meta_group(rank, what.ranks, meta);
    const StepMemory memory = measure_memory(on_meta, kObjective, kShape, training, evaluation,
                                             World(*group_on_meta, sizes), meta);

    Stream stream(Device::cpu, 1);
    Gpt model(config, layout.of_rank(rank));
    model.table().allocate(Device::cpu, DType::f64, true);
    model.initialize(5, stream);
    Executor executor(model, kObjective, kShape, memory, world, stream);
    const LoadBatch fill = [&](int micro_batch, const Fields& batch) {
      return load(what.micro_batches, micro_batch, batch);
    };
    executor.run(evaluation, fill, false);
    const double evaluated = executor.loss(0);
    executor.run(training, fill, true);
    const double trained = executor.loss(0);

    const std::lock_guard lock(mutex);
    result.evaluated += evaluated;
    result.trained += trained;
    add_gradients(result, model.table(), what.tied);
    result.measured[static_cast<std::size_t>(rank)] = memory;
    result.used[static_cast<std::size_t>(rank)] = executor.peak();
  });
  return result;
}

void expect_same_as_one_rank(const What& what) {
  SCOPED_TRACE(concat(what.ranks, " ranks, ", what.micro_batches, " micro-batches, ",
                      what.pipeline.schedule));
  const Result several = run(what),
               one = run({.micro_batches = what.micro_batches, .tied = what.tied});
  EXPECT_NEAR(several.evaluated, one.evaluated, 1e-12 * one.evaluated);
  EXPECT_NEAR(several.trained, one.trained, 1e-12 * one.trained);
  EXPECT_NE(one.trained, one.evaluated);  // dropout was on in training alone
  EXPECT_EQ(several.used, several.measured);
  ASSERT_EQ(several.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients) {
    SCOPED_TRACE(name);
    const auto found = several.gradients.find(name);
    ASSERT_NE(found, several.gradients.end());
    EXPECT_GT(largest(gradient.view()), 0);
    EXPECT_TENSORS_NEAR(found->second.view(), gradient.view(), 1e-12);
  }
}

TEST(Executor, TwoStagesComputeWhatOneDoes) {
  expect_same_as_one_rank({.ranks = 2, .micro_batches = 5});
}
TEST(Executor, FewerMicroBatchesThanStages) {
  expect_same_as_one_rank({.ranks = 4, .micro_batches = 2});
}
TEST(Executor, OneMicroBatch) { expect_same_as_one_rank({.ranks = 2, .micro_batches = 1}); }

TEST(Executor, EverySchedule) {
  for (const char* schedule : {"gpipe", "zero-bubble"})
    for (const bool tied : {false, true})
      for (const int micro_batches : {2, 6})
        expect_same_as_one_rank({.ranks = 4,
                                 .micro_batches = micro_batches,
                                 .pipeline = {.schedule = schedule},
                                 .tied = tied});
}

// Of two ranks, either is before and after the other.
TEST(Executor, SeveralChunks) {
  for (const bool tied : {false, true})
    expect_same_as_one_rank(
        {.ranks = 2, .micro_batches = 8, .pipeline = {.virtual_stages_per_rank = 2}, .tied = tied});
  expect_same_as_one_rank({.ranks = 2,
                           .micro_batches = 5,
                           .pipeline = {.virtual_stages_per_rank = 2, .microbatch_group_size = 3}});
  expect_same_as_one_rank(
      {.ranks = 3, .micro_batches = 6, .pipeline = {.layout = "Et|t|||t|tL"}, .tied = true});
}

TEST(Executor, StagesWithoutBlocks) {
  expect_same_as_one_rank(
      {.ranks = 3, .micro_batches = 6, .pipeline = {.layout = "E|t|tt||t|L"}, .tied = true});
  expect_same_as_one_rank({.ranks = 2, .micro_batches = 4, .pipeline = {.layout = "E|tt|tt|L"}});
}

// What the same schedules need on meta is what they use, byte for byte.
TEST(Executor, UsesTheMemoryThatWasMeasured) {
  for (const int ranks : {1, 2, 4})
    for (const int micro_batches : {1, 5}) {
      const Result result = run({.ranks = ranks, .micro_batches = micro_batches});
      EXPECT_EQ(result.used, result.measured);
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(concat("rank ", rank, " of ", ranks));
        const StepMemory& measured = result.measured[static_cast<std::size_t>(rank)];
        ASSERT_EQ(measured.chunks.size(), 1U);
        EXPECT_EQ(measured.chunks[0].slots, std::min(ranks - rank, micro_batches));
        EXPECT_GT(measured.keep(), 0U);
        EXPECT_GT(measured.layer, 0U);
        EXPECT_EQ(measured.deferred(), 0U);
      }
    }
}

// Weight gradients that wait keep their micro-batches' memory.
TEST(Executor, ZeroBubbleDefersOnAllRanksButTheFirst) {
  const Result result =
      run({.ranks = 4, .micro_batches = 6, .pipeline = {.schedule = "zero-bubble"}});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(result.used[rank].deferred() > 0, rank > 0);
    EXPECT_EQ(result.used[rank].chunks[0].slots, 4);
  }
}

// Micro-batches in flight share the memory for what is made again.
TEST(Executor, RecomputesInStages) {
  for (const int ranks : {1, 2, 4})
    for (const char* schedule : {"1f1b", "zero-bubble"})
      for (const RecomputeOptions& recompute :
           {RecomputeOptions{.granularity = "full", .method = "uniform", .num_layers = 1},
            RecomputeOptions{.granularity = "full", .method = "block", .num_layers = 1},
            RecomputeOptions{.granularity = "selective", .modules = {"core_attn", "mlp"}}}) {
        SCOPED_TRACE(concat(ranks, " ranks, ", schedule, ", ", recompute.granularity, " ",
                            recompute.method));
        What what{.ranks = ranks, .micro_batches = 5, .pipeline = {.schedule = schedule}};
        const Result kept = run(what);
        what.recompute = recompute;
        const Result again = run(what);
        EXPECT_EQ(again.trained, kept.trained);
        for (const auto& [name, gradient] : kept.gradients)
          EXPECT_SAME_BITS(again.gradients.at(name).view(), gradient.view()) << name;
        EXPECT_EQ(again.used, again.measured);
        for (std::size_t rank = 0; rank < kept.measured.size(); ++rank)
          EXPECT_LT(again.measured[rank].keep(), kept.measured[rank].keep());
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
      measure_memory(on_meta, kObjective, kShape, training, forward_only({}, 2), alone, meta);
  Executor executor(model, kObjective, kShape, memory, alone, stream);
  const LoadBatch fill = [](int micro_batch, const Fields& batch) {
    return load(2, micro_batch, batch);
  };
  executor.run(training, fill, true);
  std::vector<HostTensor> once;
  for (const Param& row : model.table().rows()) once.push_back(clone(row.grad));
  executor.run(training, fill, true);
  const double loss = executor.loss(0);
  for (const Param& row : model.table().rows()) {
    HostTensor expected = clone(once[row.index].view());
    if (!row.gradient_replaced)
      for (double& value : expected.span<double>()) value *= 2;
    EXPECT_TENSORS_NEAR(row.grad, expected.view(), 1e-14) << row.name();
  }
  executor.run(training, fill, true);
  EXPECT_EQ(executor.loss(0), loss);
  // Weights of rows that are four times as large scale gradients, and not the loss.
  double four = 4;
  executor.scale_weights_by(ConstTensor(&four, DType::f64, {1}));
  set_zero(gradients_of(model.table()), stream);
  executor.run(training, fill, true);
  for (const Param& row : model.table().rows()) {
    HostTensor expected = clone(once[row.index].view());
    for (double& value : expected.span<double>()) value *= 4;
    EXPECT_TENSORS_NEAR(row.grad, expected.view(), 0) << row.name();
  }
  EXPECT_EQ(executor.loss(0), loss);
}

// Each term of an objective has a number a micro-batch, and what is made small is all of them.
TEST(Executor, TellsTheTermsApart) {
  const TwoTerms two;
  const ModelConfig config = small_config();
  Stream stream(Device::cpu, 1), meta(Device::meta);
  const auto group = make_single_group();
  const World alone(*group, {});
  const Schedule training = one_f_one_b({}, 3);
  Gpt model(config), on_meta(config);
  on_meta.table().allocate(Device::meta, DType::f64, true);
  model.table().allocate(Device::cpu, DType::f64, true);
  model.initialize(5, stream);
  const StepMemory memory = measure_memory(on_meta, two, kShape, training, {}, alone, meta);
  Executor executor(model, two, kShape, memory, alone, stream);
  const LoadBatch fill = [&](int micro_batch, const Fields& batch) {
    return load(3, micro_batch, batch);
  };
  executor.run(training, fill, true);
  EXPECT_EQ(executor.losses(0).numel(), 3);
  ASSERT_EQ(executor.losses(1).numel(), 3);
  const auto all = executor.losses(0).span<double>(), first = executor.losses(1).span<double>();
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first[i] > 0, i > 0);  // the token that begins them all does not count
    EXPECT_GT(all[i], first[i]);
    EXPECT_EQ(executor.fetch_losses()[i], all[i] + first[i]);
    sum += first[i];
  }
  EXPECT_EQ(executor.loss(1), sum);
}

// A model that keeps what its forward and backward were shown of a micro-batch.
struct Witness : Model {
  ModelConfig settings = {};
  mutable std::vector<ConstTensor> shown;
  const ModelConfig& config() const override { return settings; }
  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step&, const Fields&, Side) const override { return {}; }
  void forward(Step& s, Wire&, const Wire&, const Fields& batch, const Ends& ends,
               Saved*) const override {
    EXPECT_EQ(s.tokens.first_key.data(), batch[Field::first_key].data());
    shown.push_back(s.tokens.first_key);
    set_zero(ends.loss, s.stream);
  }
  void backward(Step& s, Wire&, const Wire&, const Saved&) const override {
    shown.push_back(s.tokens.first_key);
  }
};

// Only a run with document masks has a first key a token; forward and backward see the same.
TEST(Executor, ShowsTheFirstKeysOfDocuments) {
  for (const bool masks : {false, true}) {
    const StepShape shape = shape_with(masks);
    Stream stream(Device::cpu, 1);
    const auto group = make_single_group();
    const World alone(*group, {});
    const Witness model;
    Executor executor(model, kObjective, shape, {.chunks = {{.keep = 1 << 14, .slots = 1}}}, alone,
                      stream);
    const LoadBatch fill = [&](int, const Fields& batch) {
      EXPECT_EQ(bool(batch[Field::first_key]), masks);
      set_zero(batch[Field::loss_mask], stream);
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
