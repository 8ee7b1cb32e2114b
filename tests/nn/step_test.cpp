// The keys of random numbers that a Step gives out.
#include "nn/step.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/workbench.h"

namespace mt {
namespace {

TEST(StepKeys, OfTheFirstStackTellLayerAndPurposeAlone) {
  Workbench bench;
  const RandomKey key = bench.step().dropout(0.1, 5, Purpose::hidden_dropout2).key;
  EXPECT_EQ(key.purpose, RandomKey::make(1234, 5 * 16 + 3).purpose);
  EXPECT_EQ(key.seed_low, 1234U);
}

TEST(StepKeys, DifferBetweenStacksLayersAndPurposes) {
  Workbench bench;
  std::set<std::uint32_t> keys;
  for (const std::uint32_t stack : {0U, 1U, 255U}) {
    Step s = bench.step();
    s.tokens.stack = stack;
    for (const std::int64_t layer : {0, 1, 127, 1'000'000})
      for (const Purpose purpose : {Purpose::embedding_dropout, Purpose::hidden_dropout2})
        keys.insert(s.dropout(0.1, layer, purpose).key.purpose);
  }
  EXPECT_EQ(keys.size(), 3U * 4 * 2);
}

}  // namespace
}  // namespace mt
