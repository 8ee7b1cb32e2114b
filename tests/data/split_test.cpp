#include "data/samples/split.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace mt {
namespace {

using Bounds = std::vector<std::int64_t>;

Bounds ends(const std::string& text, std::int64_t count) {
  Bounds result;
  for (const auto& range : split_ranges("--split", text, count))
    if (range) result.push_back(range->end);
  return result;
}

TEST(Split, Bounds) {
  EXPECT_EQ(ends("969, 30, 1", 1000), (Bounds{969, 999, 1000}));
  EXPECT_EQ(ends("969,30,1", 10), (Bounds{10, 10, 10}));
  EXPECT_EQ(ends("969,30,1", 101), (Bounds{98, 101, 101}));
  EXPECT_EQ(ends("969,30,1", 100000), (Bounds{96900, 99900, 100000}));
  EXPECT_EQ(ends("90,5,5", 10), (Bounds{9, 10, 10}));
  EXPECT_EQ(ends("90,5,5", 7), (Bounds{6, 7, 7}));
  EXPECT_EQ(ends("1,1,1", 10), (Bounds{3, 7, 10}));
}

TEST(Split, TiesGoToTheEvenNumber) {
  EXPECT_EQ(ends("0.5,0.25,0.25", 10), (Bounds{5, 8, 10}));
  EXPECT_EQ(ends("0.5,0.25,0.25", 101), (Bounds{50, 76, 101}));
}

TEST(Split, SharesOfNothingAreAbsent) {
  const auto train_only = split_ranges("--split", "1", 10);
  EXPECT_EQ(train_only[0], (ItemRange{0, 10}));
  EXPECT_FALSE(train_only[1].has_value());
  EXPECT_FALSE(train_only[2].has_value());
  const auto no_valid = split_ranges("--split", "8,0,2", 10);
  EXPECT_FALSE(no_valid[1].has_value());
  EXPECT_EQ(no_valid[2], (ItemRange{8, 10}));
  const auto empty_valid = split_ranges("--split", "969,30,1", 10);
  EXPECT_EQ(empty_valid[1], (ItemRange{10, 10}));
}

TEST(Split, WrongTextsAreUsageErrors) {
  for (const char* text : {"", "0,0,0", "1,2,3,4", "1e3,1", "-1,2", "1.2.3", ".", "ninety"})
    EXPECT_TRUE(error_of([&] {
                  split_ranges("--shares", text, 10);
                }).starts_with(concat("64 --shares \"", text, "\": ")))
        << text;
}

// numpy.sum([0.1 * (i % 7) + 1e-3 * i for i in range(n)]) of numpy 2.4.6
TEST(Split, NumpySumRoundsAsNumpyDoes) {
  const auto sum = [](int count) {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) values.push_back(0.1 * (i % 7) + 1e-3 * i);
    return numpy_sum(values);
  };
  EXPECT_EQ(sum(0), 0.0);
  EXPECT_EQ(sum(7), 2.1210000000000004);
  EXPECT_EQ(sum(8), 2.128);
  EXPECT_EQ(sum(9), 2.236);
  EXPECT_EQ(sum(128), 46.028000000000006);
  EXPECT_EQ(sum(129), 46.356);
  EXPECT_EQ(sum(130), 46.785);
  EXPECT_EQ(sum(1000), 799.2);
  EXPECT_EQ(sum(4099), 9627.951000000001);
}

TEST(Split, TargetSamples) {
  using Sizes = std::array<std::optional<std::int64_t>, 3>;
  EXPECT_EQ(
      target_samples(
          {.train_iters = 100, .eval_iters = 10, .eval_interval = 30, .global_batch_size = 8}),
      (Sizes{800, 320, 80}));
  EXPECT_EQ(target_samples({.train_samples = 777,
                            .train_iters = 97,
                            .eval_iters = 0,
                            .eval_interval = 1000,
                            .global_batch_size = 8}),
            (Sizes{777, 0, 0}));
  EXPECT_EQ(target_samples({.train_iters = 4,
                            .eval_iters = 2,
                            .eval_interval = 2,
                            .global_batch_size = 8,
                            .eval_batch_size = 3}),
            (Sizes{32, 18, 6}));
  EXPECT_EQ(target_samples({.train_iters = 4, .eval_iters = 2, .full_validation = true}),
            (Sizes{4, std::nullopt, 2}));
  EXPECT_EQ(code_of([] { target_samples({.train_iters = INT64_MAX / 2, .global_batch_size = 3}); }),
            Exit::usage);
  EXPECT_EQ(code_of([] { target_samples({.eval_interval = 0}); }), Exit::usage);
}

}  // namespace
}  // namespace mt
