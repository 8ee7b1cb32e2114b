// What BERT's objective makes of a micro-batch: the rows that heads are asked of, and their
// weights.
#include <gtest/gtest.h>

#include "model/model.h"
#include "tensor/arena.h"
#include "tests/support/host_tensor.h"
#include "train/run/objective.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int32_t>;

constexpr std::int64_t kSamples = 2, kTokens = 6, kPlaces = 3;

FieldSpecs sample_fields(bool order) {
  FieldSpecs fields{
      {.field = Field::ids, .per_sample = kTokens},
      {.field = Field::lengths, .per_sample = 1, .of_tokens = false},
      {.field = Field::masked, .per_sample = kPlaces, .of_tokens = false},
      {.field = Field::labels, .per_sample = kPlaces, .of_tokens = false},
      {.field = Field::loss_mask, .dtype = DType::f32, .per_sample = kPlaces, .of_tokens = false}};
  if (!order) return fields;
  fields.push_back({.field = Field::order, .per_sample = 1, .of_tokens = false});
  fields.push_back(
      {.field = Field::order_mask, .dtype = DType::f32, .per_sample = 1, .of_tokens = false});
  return fields;
}

// Two samples of four and six tokens, with two masked tokens and one.
struct Batch {
  explicit Batch(const MaskedModelling& objective, bool order) {
    FieldSpecs specs = sample_fields(order);
    for (const FieldSpec& own : objective.fields(specs)) specs.push_back(own);
    const std::int64_t bytes = fields_bytes(specs, kSamples, DType::f64);
    storage = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
    fields = fields_in(storage.tensor(DType::u8, {bytes}), specs, kSamples, DType::f64);
    put(Field::lengths, {4, 6});
    put(Field::masked, {1, 3, 0, 5, 0, 0});
    put(Field::labels, {7, 8, 0, 9, 0, 0});
    std::ranges::copy(std::vector<double>{1, 1, 0, 1, 0, 0}, mask(Field::loss_mask).begin());
    if (!order) return;
    put(Field::order, {0, 1});
    std::ranges::copy(std::vector<double>{1, 1}, mask(Field::order_mask).begin());
  }
  void put(Field field, const Numbers& numbers) {
    std::ranges::copy(numbers, fields[field].as<std::int32_t>());
  }
  Numbers get(Field field) const {
    const auto numbers = fields.span<std::int32_t>(field);
    return {numbers.begin(), numbers.end()};
  }
  std::span<double> mask(Field field) const { return fields.span<double>(field); }
  std::vector<double> reals(Field field) const { return {mask(field).begin(), mask(field).end()}; }
  Buffer storage;
  Fields fields;
};

TEST(MaskedModelling, AsksOfMaskedTokensAndThenOfFirstOnes) {
  const MaskedModelling objective(true);
  const Batch batch(objective, true);
  EXPECT_EQ(objective.count(0, batch.fields), 3);
  EXPECT_EQ(objective.count(1, batch.fields), 2);
  objective.weigh(batch.fields, std::vector<double>{0.5, 0.25});
  EXPECT_EQ(batch.get(Field::first_key), (Numbers{0, 0, 0, 0, 4, 4, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.get(Field::rows), (Numbers{1, 3, 0, 11, 0, 0, 0, 6}));
  EXPECT_EQ(batch.get(Field::row_of), (Numbers{6, 0, -1, 1, -1, -1, 7, -1, -1, -1, -1, 3}));
  EXPECT_EQ(batch.get(Field::targets), (Numbers{7, 8, 0, 9, 0, 0, 0, 1}));
  EXPECT_EQ(batch.reals(Field::weight), (std::vector<double>{0.5, 0.5, 0, 0.5, 0, 0, 0.25, 0.25}));
  const double third = 1.0 / 3;
  EXPECT_EQ(batch.reals(Field::share),
            (std::vector<double>{third, third, 0, third, 0, 0, 0.5, 0.5}));
}

// A term's value is the mean of the losses that count in it, whatever the others are.
TEST(MaskedModelling, ReportsTheMeansOfBothHeads) {
  const MaskedModelling objective(true);
  const Batch batch(objective, true);
  objective.weigh(batch.fields, std::vector<double>{0.5, 0.25});
  Arena keep{Buffer(Device::cpu, 4096)};
  const Ends ends = objective.ends(batch.fields, keep, DType::f64);
  std::ranges::copy(std::vector<double>{2, 3, 1e9, 7, 1e9, 1e9, 1, 4}, ends.loss.as<double>());
  Stream stream(Device::cpu);
  double words = 0, order = 0;
  objective.sum_losses(0, {&words, DType::f64, {1}}, ends, batch.fields, stream);
  objective.sum_losses(1, {&order, DType::f64, {1}}, ends, batch.fields, stream);
  EXPECT_DOUBLE_EQ(words, 4);
  EXPECT_DOUBLE_EQ(order, 2.5);
}

// Padding samples count nowhere, and without masked tokens there is nothing to divide by.
TEST(MaskedModelling, TakesMicroBatchesWithoutMaskedTokens) {
  const MaskedModelling objective(false);
  const Batch batch(objective, false);
  ASSERT_EQ(objective.terms().size(), 1U);
  std::ranges::fill(batch.mask(Field::loss_mask), 0);
  objective.weigh(batch.fields, std::vector<double>{1});
  EXPECT_EQ(batch.get(Field::rows), (Numbers{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.get(Field::row_of), Numbers(12, -1));
  EXPECT_EQ(batch.reals(Field::weight), std::vector<double>(6, 0));
  EXPECT_EQ(batch.reals(Field::share), std::vector<double>(6, 0));
}

}  // namespace
}  // namespace mt
