#include "train/train_data.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/base/scratch.h"
#include "tests/data/support.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int64_t kLength = 8;
constexpr std::int32_t kEod = 99;

// One document of 100 tokens, each its own position; with an end after every tenth if asked.
Documents counting(bool with_ends) {
  std::vector<std::int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  if (with_ends)
    for (std::size_t i = 9; i < tokens.size(); i += 10) tokens[i] = kEod;
  return {tokens};
}

struct BatchMemory {
  BatchMemory(std::int64_t sequences, DType dtype)
      : ids(DType::i32, {sequences * kLength}),
        labels(DType::i32, {sequences * kLength}),
        positions(DType::i32, {sequences * kLength}),
        mask(dtype, {sequences * kLength}),
        weight(dtype, {sequences * kLength}) {}
  Batch batch() const {
    return {.ids = ids,
            .labels = labels,
            .positions = positions,
            .loss_mask = mask,
            .row_weight = weight,
            .loss = {}};
  }
  HostTensor ids, labels, positions, mask, weight;
};

struct Sample {
  Scratch scratch;
  IndexedDataset file;
  GptDataset data;
  Sample(const Documents& documents, bool eod_mask_loss)
      : file(write(scratch, documents)),
        data(file, {.index = {.sequences = {0, file.sequences()}, .seq_length = kLength},
                    .eod_id = kEod,
                    .vocab_size = 100,
                    .eod_mask_loss = eod_mask_loss}) {}
  static std::string write(const Scratch& scratch, const Documents& documents) {
    write_documents(scratch.path("data"), TokenType::u16, documents);
    return scratch.path("data");
  }
};

TEST(FillBatch, LabelsAreTheNextTokens) {
  const Sample sample(counting(false), false);
  const BatchMemory memory(3, DType::f32);
  fill_batch(sample.data, 2, 3, 1, memory.batch());
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t at = i * kLength;
    const auto start =
        sample.data.index().sample(sample.data.index().shuffled(2 + static_cast<std::int64_t>(i)));
    for (std::size_t t = 0; t < kLength; ++t) {
      EXPECT_EQ(memory.ids.span<std::int32_t>()[at + t],
                start.offset + static_cast<std::int32_t>(t));
      EXPECT_EQ(memory.labels.span<std::int32_t>()[at + t],
                memory.ids.span<std::int32_t>()[at + t] + 1);
      EXPECT_EQ(memory.positions.span<std::int32_t>()[at + t], static_cast<std::int32_t>(t));
    }
  }
}

TEST(FillBatch, WeightsOfAllMicroBatchesAddUpToOne) {
  for (const bool mask_ends : {false, true})
    for (const int micro_batches : {1, 2, 4}) {
      const Sample sample(counting(true), mask_ends);
      double all = 0;
      for (int i = 0; i < micro_batches; ++i) {
        const BatchMemory memory(2, DType::f64);
        const double counted = fill_batch(sample.data, 2 * i, 2, micro_batches, memory.batch());
        const auto mask = memory.mask.span<double>(), weight = memory.weight.span<double>();
        EXPECT_EQ(counted, std::accumulate(mask.begin(), mask.end(), 0.0));
        double sum = 0;
        for (std::size_t t = 0; t < mask.size(); ++t) {
          const bool counts = !mask_ends || memory.ids.span<std::int32_t>()[t] != kEod;
          EXPECT_EQ(mask[t], counts ? 1 : 0);
          EXPECT_DOUBLE_EQ(weight[t], counts ? 1 / counted / micro_batches : 0);
          sum += weight[t];
        }
        EXPECT_NEAR(sum, 1.0 / micro_batches, 1e-15);
        all += sum;
      }
      EXPECT_NEAR(all, 1, 1e-15);
    }
}

// A micro-batch in which nothing counts weighs nothing, and divides nothing by zero.
TEST(FillBatch, NothingCounts) {
  const Sample sample({std::vector<std::int32_t>(40, kEod)}, true);
  const BatchMemory memory(2, DType::f32);
  EXPECT_EQ(fill_batch(sample.data, 0, 2, 1, memory.batch()), 0);
  EXPECT_EQ(largest(memory.weight.view()), 0);
}

DataOptions options_for(const std::string& prefix) {
  const std::string folder = std::string(MT_TESTDATA) + "/gpt2_bpe/";
  return {.data_path = prefix,
          .split = "80,10,10",
          .seq_length = kLength,
          .tokenizer = {.type = "GPT2BPETokenizer",
                        .vocab_file = folder + "vocab.json",
                        .merge_file = folder + "merges.txt"}};
}

TEST(TrainData, CutsTheFileIntoThreeParts) {
  const Scratch scratch;
  write_documents(scratch.path("data"), TokenType::u16,
                  Documents(20, std::vector<std::int32_t>(50, 7)));
  TrainData data(options_for(scratch.path("data")));
  data.build({.train_iters = 10, .eval_iters = 2, .eval_interval = 5, .global_batch_size = 4}, 1);
  ASSERT_NE(data.split(Split::train), nullptr);
  EXPECT_GE(data.split(Split::train)->size(), 10 * 4);
  EXPECT_GE(data.split(Split::valid)->size(), (10 / 5 + 1) * 2 * 4);
  EXPECT_GE(data.split(Split::test)->size(), 2 * 4);
  for (std::int64_t k = 0; k < data.split(Split::valid)->size(); ++k)
    for (const GptDataset::Part& part : data.split(Split::valid)->parts(k)) {
      EXPECT_GE(part.sequence, 16);
      EXPECT_LT(part.sequence, 18);
    }
}

TEST(TrainData, WithoutEvaluationThereIsOnlyTraining) {
  const Scratch scratch;
  write_documents(scratch.path("data"), TokenType::u16,
                  Documents(20, std::vector<std::int32_t>(50, 7)));
  TrainData data(options_for(scratch.path("data")));
  data.build({.train_iters = 1, .eval_iters = 0, .eval_interval = 5, .global_batch_size = 4}, 1);
  EXPECT_NE(data.split(Split::train), nullptr);
  EXPECT_EQ(data.split(Split::valid), nullptr);
  EXPECT_EQ(data.split(Split::test), nullptr);
}

TEST(TrainData, WrongInputsAreNamed) {
  const Scratch scratch;
  EXPECT_EQ(error_of([&] { TrainData data(options_for(scratch.path("none"))); }),
            concat("66 ", scratch.path("none.idx"), ": cannot open: No such file or directory"));
  write_documents(scratch.path("empty"), TokenType::u16, {});
  EXPECT_EQ(code_of([&] {
              TrainData data(options_for(scratch.path("empty")));
              data.build({.train_iters = 1}, 1);
            }),
            Exit::bad_data);
  // A token that the tokenizer does not have is found when its sample is read.
  write_documents(scratch.path("large"), TokenType::u16, {std::vector<std::int32_t>(50, 60000)});
  TrainData data(options_for(scratch.path("large")));
  data.build({.train_iters = 1}, 1);
  const BatchMemory memory(1, DType::f32);
  EXPECT_EQ(code_of([&] { fill_batch(*data.split(Split::train), 0, 1, 1, memory.batch()); }),
            Exit::bad_data);
}

}  // namespace
}  // namespace mt
