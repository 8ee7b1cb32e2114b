#include "train/run/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/train/samples.h"
#include "tests/train/two_terms.h"
#include "text/null_tokenizer.h"
#include "train/run/pretraining.h"

namespace mt {
namespace {

// Of a model with rows for so many of its tokenizer's kEod + 1 words.
class OfNumbers : public Pretraining {
 public:
  explicit OfNumbers(const DataOptions& data = {}, std::int64_t rows = kEod + 1)
      : Pretraining(of_words(rows), data) {}
  const Tokenizer& tokenizer() const override { return tokenizer_; }

 private:
  static ModelConfig of_words(std::int64_t count) {
    ModelConfig model;
    model.vocab_size = count;
    return model;
  }

  NullTokenizer tokenizer_{kEod};
};

BatchOptions one_at_a_time(bool per_token) {
  BatchOptions o;
  o.micro_batch_size = 1;
  o.calculate_per_token_loss = per_token;
  return o;
}

// Four samples in which so many tokens count, in one document: the others are ends.
FileSamples counting_4_2_3_1() {
  std::vector<std::int32_t> tokens;
  for (const int counted : {4, 2, 3, 1})
    for (int t = 0; t < kLength; ++t) tokens.push_back(t < counted ? t : kEod);
  tokens.push_back(kEod);
  return {{tokens}, true};
}

struct Sums {
  double objective = 0, loss = 0, tokens = 0;  // of the step; the gradient is the objective's
};

// Two ranks with two micro-batches each, which are one sample each; the losses of a sample's tokens
// add up to `loss_of(tokens that count)`.
Sums step_of_two_ranks(bool per_token, double (*loss_of)(double)) {
  const FileSamples sample = counting_4_2_3_1();
  double sums[3] = {};
  run_ranks(2, [&](Group& ranks) {
    const World world(ranks, {.dp = 2});
    const OfNumbers task;
    BatchLoader loader(one_at_a_time(per_token), DType::f32, task, sample.set, 0, 2, world);
    double own[3] = {};
    for (int i = 0; i < 2; ++i) {
      const BatchMemory memory(1, DType::f64);
      const double before = loader.count(0);
      EXPECT_EQ(loader.load(i, memory.batch()), 2 * i + ranks.rank());
      const double counted = loader.count(0) - before;
      EXPECT_EQ(loader.weight(i), per_token ? counted : 0.5);
      const auto mask = memory.mask.span<double>(), weight = memory.weight.span<double>();
      for (std::size_t t = 0; t < mask.size(); ++t) {
        own[0] += weight[t] * loss_of(counted) / counted;
        own[1] += mask[t] * loss_of(counted) / counted;
      }
    }
    own[2] = loader.count(0);
    ranks.all_reduce({own, DType::f64, {3}}).wait();
    if (ranks.rank() == 0) std::copy(own, own + 3, sums);
  });
  return {sums[0], sums[1], sums[2]};
}

// spec/training.md 11.8: micro-batches of (sum of losses, tokens) (10, 4), (6, 2), (9, 3), (2, 1).
double loss_of(double tokens) { return tokens == 4 ? 10 : tokens == 3 ? 9 : tokens == 2 ? 6 : 2; }

TEST(BatchLoader, EveryMicroBatchWeighsTheSame) {
  const Sums sums = step_of_two_ranks(false, loss_of);
  EXPECT_DOUBLE_EQ(sums.objective / 2, 2.625);  // divided by the number of ranks
  EXPECT_DOUBLE_EQ(sums.loss / sums.tokens, 2.7);
}

TEST(BatchLoader, OrEveryToken) {
  const Sums sums = step_of_two_ranks(true, loss_of);
  EXPECT_DOUBLE_EQ(sums.objective / sums.tokens, 2.7);  // divided by that of all tokens
  EXPECT_DOUBLE_EQ(sums.loss / sums.tokens, 2.7);
}

// A task whose objective has two terms.
class TwoTermTask final : public OfNumbers {
 public:
  const Objective& objective() const override { return objective_; }

 private:
  TwoTerms objective_;
};

// The first loss of each micro-batch weighs more by a half of itself, however many others count;
// its mean is over the micro-batches.
TEST(BatchLoader, SeveralTerms) {
  const FileSamples sample = counting_4_2_3_1();
  const TwoTermTask task;
  const auto group = make_single_group();
  const World alone(*group, {});
  BatchLoader loader(one_at_a_time(false), DType::f32, task, sample.set, 0, 2, alone);
  for (const int counted : {4, 2}) {
    const BatchMemory memory(1, DType::f64);
    loader.load(counted == 4 ? 0 : 1, memory.batch());
    EXPECT_EQ(memory.weight.span<double>()[0], 0.5 / counted + 0.25);
    EXPECT_EQ(memory.weight.span<double>()[1], 0.5 / counted);
  }
  EXPECT_EQ(loader.count(0), 6);
  EXPECT_EQ(loader.count(1), 2);
}

// Every stage adds to a term, and the last alone says how much there is to divide by.
TEST(BatchLoader, SumsOverRanksAndStages) {
  run_ranks(4, [](Group& ranks) {
    const World world(ranks, {.dp = 2, .pp = 2});
    const bool is_last = world.pipeline().rank() == 1;
    const double data = world.data().rank() + 1;
    LossSum sums[] = {{is_last ? 10 * data : 0, is_last ? data : 0},
                      {100 * data + world.pipeline().rank(), is_last ? 2.0 : 0}};
    sum_losses(world, {&sums[0].sum, DType::f64, {4}}, 2);
    EXPECT_EQ(sums[0].mean(), 10);
    EXPECT_EQ(sums[0].count, 3);
    EXPECT_EQ(sums[1].sum, 602);
    EXPECT_EQ(sums[1].count, 4);
  });
}

// A micro-batch in which nothing counts weighs nothing, and divides nothing by zero.
TEST(BatchLoader, NothingCounts) {
  const FileSamples sample({std::vector<std::int32_t>(40, kEod)}, true);
  for (const bool per_token : {false, true}) {
    const BatchMemory memory(1, DType::f32);
    const auto group = make_single_group();
    const World alone(*group, {});
    const OfNumbers task;
    BatchLoader loader(one_at_a_time(per_token), DType::f32, task, sample.set, 0, 2, alone);
    loader.load(0, memory.batch());
    EXPECT_EQ(loader.count(0), 0);
    EXPECT_EQ(largest(memory.weight.view()), 0);
  }
}

// Of two ranks that share a sequence of eight tokens, the first has the ends.  Only its first token
// counts: the other's weigh nothing, and nothing is divided by their number.
TEST(BatchLoader, TellsATokenThatTheModelHasNoRowFor) {
  const FileSamples sample = counting_4_2_3_1();
  const auto group = make_single_group();
  const World alone(*group, {});
  const OfNumbers task({}, kEod);
  BatchLoader loader(one_at_a_time(false), DType::f32, task, sample.set, 0, 2, alone);
  const BatchMemory memory(1, DType::f64);
  try {
    loader.load(0, memory.batch());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    EXPECT_EQ(
        std::string(error.what()),
        "sample 0: has token 99, and the model rows for 99 words, fewer than its tokenizer has");
  }
}

TEST(BatchLoader, RanksShareASequence) {
  std::vector<std::int32_t> tokens(kLength + 1, kEod);
  tokens[0] = 7;
  const FileSamples sample({tokens}, true);
  DataOptions data;
  data.seq_length = kLength;
  run_ranks(2, [&](Group& ranks) {
    const World world(ranks, {.cp = 2});
    const BatchMemory memory(1, DType::f32);
    Fields own = memory.batch();
    for (const Field field :
         {Field::ids, Field::labels, Field::positions, Field::loss_mask, Field::weight})
      own[field] = own[field].rows(0, kLength / 2);
    const OfNumbers task(data);
    BatchLoader loader(one_at_a_time(false), DType::f32, task, sample.set, 0, 1, world);
    loader.load(0, own);
    const auto positions = own.span<std::int32_t>(Field::positions);
    const std::vector<std::int32_t> ends{0, 1, 6, 7}, middle{2, 3, 4, 5};
    EXPECT_TRUE(std::ranges::equal(positions, ranks.rank() == 0 ? ends : middle));
    EXPECT_EQ(loader.count(0), ranks.rank() == 0 ? 1 : 0);
    EXPECT_EQ(own[Field::weight].as<float>()[0], ranks.rank() == 0 ? 1 : 0);
    EXPECT_EQ(largest(own[Field::weight].rows(1, kLength / 2)), 0);
  });
}

}  // namespace
}  // namespace mt
