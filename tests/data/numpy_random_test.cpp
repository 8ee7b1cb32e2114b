// Values of numpy 1.x's RandomState, as published and as computed with numpy itself.
#include "data/samples/numpy_random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace mt {
namespace {

using Order = std::vector<int>;

Order shuffled(RandomState& random, int count) {
  Order order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span(order));
  return order;
}

Order shuffled(std::uint32_t seed, int count) {
  RandomState random(seed);
  return shuffled(random, count);
}

TEST(RandomState, Shuffle) {
  EXPECT_EQ(shuffled(0, 10), (Order{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}));
  EXPECT_EQ(shuffled(42, 10), (Order{8, 1, 5, 0, 7, 2, 9, 4, 3, 6}));
  EXPECT_EQ(shuffled(1234, 10), (Order{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
  EXPECT_EQ(shuffled(1234, 5), (Order{4, 0, 1, 2, 3}));
  EXPECT_EQ(shuffled(1234, 8), (Order{2, 1, 6, 0, 4, 5, 3, 7}));
  EXPECT_EQ(shuffled(1234, 16), (Order{13, 11, 0, 12, 14, 2, 10, 7, 1, 9, 8, 4, 5, 6, 3, 15}));
  EXPECT_EQ(shuffled(1234, 20),
            (Order{3, 13, 2, 16, 14, 5, 4, 0, 8, 18, 17, 11, 10, 9, 7, 1, 19, 12, 6, 15}));
}

TEST(RandomState, ShufflesGoOnFromTheSameState) {
  RandomState random(1234);
  EXPECT_EQ(shuffled(random, 4), (Order{0, 1, 2, 3}));
  EXPECT_EQ(shuffled(random, 4), (Order{1, 2, 3, 0}));
}

TEST(RandomState, ShufflingNothingDrawsNothing) {
  RandomState random(1234);
  EXPECT_EQ(shuffled(random, 0), Order{});
  EXPECT_EQ(shuffled(random, 1), Order{0});
  EXPECT_EQ(random.next32(), 822569775U);
}

TEST(RandomState, Words) {
  RandomState random(1234);
  for (const std::uint32_t expected :
       {822569775U, 2137449171U, 2671936806U, 3512589365U, 1880026316U, 2629000564U})
    EXPECT_EQ(random.next32(), expected);
  RandomState published(5489);
  for (int i = 1; i < 10000; ++i) published.next32();
  EXPECT_EQ(published.next32(), 4123659995U);
}

TEST(RandomState, WideWordsTakeTheHighHalfFirst) {
  RandomState random(1234);
  EXPECT_EQ(random.next64(), (std::uint64_t{822569775} << 32) + 2137449171U);
}

TEST(RandomState, Random) {
  RandomState zero(0), forty_two(42), other(1234);
  EXPECT_EQ(zero.random(), 0.5488135039273248);
  EXPECT_EQ(zero.random(), 0.7151893663724195);
  EXPECT_EQ(forty_two.random(), 0.3745401188473625);
  EXPECT_EQ(other.random(), 0.1915194503788923);
  EXPECT_EQ(other.random(), 0.6221087710398319);
}

TEST(RandomState, Randint) {
  RandomState zero(0), forty_two(42);
  for (const int expected : {5, 0, 3, 3, 7, 9, 3, 5, 2, 4})
    EXPECT_EQ(zero.randint(0, 10), expected);
  for (const int expected : {51, 92, 14, 71, 60, 20, 82, 86, 74, 74})
    EXPECT_EQ(forty_two.randint(0, 100), expected);
}

TEST(RandomState, RandintOfOneValueDrawsNothingAndOfAll32BitsDrawsOneWord) {
  RandomState random(1234);
  EXPECT_EQ(random.randint(7, 8), 7);
  EXPECT_EQ(random.randint(0, std::int64_t{1} << 32), 822569775);
  EXPECT_EQ(random.next32(), 2137449171U);
}

TEST(RandomState, IntervalAbove32BitsDrawsTwoWords) {
  RandomState random(1234);
  const std::uint64_t max = (std::uint64_t{1} << 40) - 1;
  EXPECT_EQ(random.interval(max), ((std::uint64_t{822569775} << 32) + 2137449171U) & max);
}

}  // namespace
}  // namespace mt
