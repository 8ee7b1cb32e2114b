#include "post/data/packed_samples.h"

#include <gtest/gtest.h>

#include <set>

#include "tensor/buffer.h"

namespace mt {
namespace {

using Ints = std::vector<std::int32_t>;

struct Row {
  Ints ids, labels, positions, first_key;
  std::vector<float> mask;
};

Row row_of(const PackedSamples& samples, std::int64_t k) {
  std::int64_t tokens = samples.fields().front().per_sample;
  const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(bytes));
  const Fields row = fields_in(buffer.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
  samples.get(k, row);
  const auto ints = [&](Field field) {
    const auto span = row.span<std::int32_t>(field);
    return Ints(span.begin(), span.begin() + tokens);
  };
  const auto mask = row.span<float>(Field::loss_mask);
  return {ints(Field::ids),
          ints(Field::labels),
          ints(Field::positions),
          ints(Field::first_key),
          {mask.begin(), mask.end()}};
}

std::vector<Example> three() {
  return {{.ids = {11, 12, 13}, .learnt = {false, true, true}},
          {.ids = {21, 22}, .learnt = {true, true}},
          {.ids = {31, 32, 33, 34}, .learnt = {false, false, true, false}}};
}

PackedSamples samples_of(Packing how, const PackedSamples::Order& order = {}) {
  return {"data", std::make_shared<const Packed>(Packed::of(three(), how, 8)), order};
}

TEST(PackedSamples, PartsDoNotSeeEachOther) {
  const PackedSamples samples = samples_of(Packing::concatenative);
  ASSERT_EQ(samples.size(), 2);
  const Row row = row_of(samples, 0);
  EXPECT_EQ(row.ids, (Ints{11, 12, 13, 21, 22, 0, 0, 0}));
  EXPECT_EQ(row.labels, (Ints{12, 13, 0, 22, 0, 0, 0, 0}));
  EXPECT_EQ(row.mask, (std::vector<float>{1, 1, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(row.positions, (Ints{0, 1, 2, 0, 1, 0, 1, 2}));
  EXPECT_EQ(row.first_key, (Ints{0, 0, 0, 3, 3, 5, 5, 5}));
  EXPECT_EQ(row_of(samples, 1).mask, (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(PackedSamples, MostLearntIsOfOneSample) {
  EXPECT_EQ(samples_of(Packing::none).packed().most_learnt(), 2);
  EXPECT_EQ(samples_of(Packing::concatenative).packed().most_learnt(), 3);
  EXPECT_EQ(samples_of(Packing::wrapped).packed().most_learnt(), 5);
}

TEST(PackedSamples, WrappedIsOneText) {
  const PackedSamples samples = samples_of(Packing::wrapped);
  const Row row = row_of(samples, 0);
  EXPECT_EQ(row.ids, (Ints{11, 12, 13, 21, 22, 31, 32, 33}));
  EXPECT_EQ(row.labels, (Ints{12, 13, 21, 22, 31, 32, 33, 0}));
  EXPECT_EQ(row.mask, (std::vector<float>{1, 1, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(row.positions, (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(row.first_key, (Ints{0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PackedSamples, EveryEpochHasAllInAnOrderOfItsOwn) {
  std::vector<Example> many;
  for (std::int32_t i = 0; i < 50; ++i) many.push_back({.ids = {i, i}, .learnt = {true, true}});
  const auto packed = std::make_shared<const Packed>(Packed::of(many, Packing::none, 4));
  const PackedSamples samples("data", packed, {.epochs = 3, .shuffled = true, .seed = 7});
  ASSERT_EQ(samples.size(), 150);
  std::vector<Ints> orders(3);
  for (std::int64_t k = 0; k < 150; ++k)
    orders[static_cast<std::size_t>(k / 50)].push_back(row_of(samples, k).ids[0]);
  for (const Ints& order : orders) EXPECT_EQ(std::set(order.begin(), order.end()).size(), 50u);
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_EQ(row_of(samples, 3).ids[0], orders[0][3]);  // whichever epoch was asked for before
  const PackedSamples in_order("data", packed, {});
  EXPECT_EQ(row_of(in_order, 3).ids[0], 3);
}

}  // namespace
}  // namespace mt
