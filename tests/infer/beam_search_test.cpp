#include "infer/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt {
namespace {

// A model of four tokens, of which each has its followers; 3 ends a text.
std::vector<BeamSearch::Text> search(std::int64_t width, std::int64_t tokens, double penalty) {
  static constexpr double kNext[3][4] = {{.1, .6, .2, .1}, {.3, .1, .2, .4}, {.25, .25, .25, .25}};
  BeamSearch beams(
      {.width = width, .num_tokens = tokens, .stop_token = 3, .length_penalty = penalty}, {0});
  while (!beams.open().empty()) {
    std::vector<std::vector<double>> logits;
    for (const BeamSearch::Text& text : beams.open()) {
      auto& row = logits.emplace_back();
      for (const double p : kNext[text.ids.back()]) row.push_back(std::log(p) + 5);
    }
    beams.take(logits);
  }
  return beams.found();
}

void expect(double penalty,
            const std::vector<std::pair<double, std::vector<std::int32_t>>>& texts) {
  const auto found = search(2, 3, penalty);
  ASSERT_EQ(found.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_NEAR(found[i].score, texts[i].first, 1e-6);
    EXPECT_EQ(found[i].ids, texts[i].second);
  }
}

// Megatron's values.
TEST(BeamSearch, TwoBeams) {
  expect(1, {{-0.713558, {0, 1}}, {-0.741875, {0, 1, 0, 1}}});
  expect(0, {{-1.427116, {0, 1}}, {-2.225624, {0, 1, 0, 1}}});
  expect(2, {{-0.247292, {0, 1, 0, 1}}, {-0.356779, {0, 1}}});
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const auto found = search(1, 5, 1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].ids, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(search(1, 0, 1)[0].ids, std::vector<std::int32_t>{0});
}

TEST(BeamSearch, MoreBeamsThanTokens) { EXPECT_LE(search(9, 2, 1).size(), 9U); }

}  // namespace
}  // namespace mt
