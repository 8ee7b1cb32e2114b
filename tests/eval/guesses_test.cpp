#include "eval/guesses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

TEST(Guesses, ScoreIsTheCrossEntropyAndWhetherTheLikeliestIsRight) {
  HostTensor logits(DType::f32, {3, 4});
  const float values[] = {0, 1, 2, 3, 5, 5, 0, 0, -100, 0, 100, 0};
  std::ranges::copy(values, logits.view().as<float>());
  const std::int32_t tokens[] = {3, 1, 1};
  const GuessScore score = score_guesses(logits, tokens);
  const double first = std::log(std::exp(-3) + std::exp(-2) + std::exp(-1) + 1),
               second = std::log(2 + 2 * std::exp(-5)), third = 100;
  EXPECT_NEAR(score.nll, first + second + third, 1e-12);
  EXPECT_EQ(score.tokens, 3);
  EXPECT_EQ(score.right, 1);  // of two that are equally likely the first counts
  EXPECT_NEAR(score.perplexity(), std::exp((first + second + third) / 3), 1e-3);
  EXPECT_NEAR(score.accuracy(), 1 / 3.0, 1e-15);
  EXPECT_EQ(score_guesses(logits.view().rows(0, 0), {}).tokens, 0);
  logits.view().as<float>()[5] = std::nanf("");
  EXPECT_THROW(score_guesses(logits, tokens), Error);
}

TEST(Guesses, EachTokenIsMaskedInTurn) {
  const std::int32_t tokens[] = {5, 6, 7, 8, 9};
  std::vector<MaskedText> texts;
  mask_in_turn(tokens, {.cls = 1, .sep = 2, .mask = 3}, 3,
               [&](MaskedText text) { texts.push_back(std::move(text)); });
  using Ids = std::vector<std::int32_t>;
  const Ids expected[] = {
      {1, 3, 6, 7, 2}, {1, 5, 3, 7, 2}, {1, 5, 6, 3, 2}, {1, 3, 9, 2}, {1, 8, 3, 2}};
  ASSERT_EQ(texts.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(texts[i].ids, expected[i]) << i;
    EXPECT_EQ(texts[i].tokens, Ids{tokens[i]}) << i;
    EXPECT_EQ(texts[i].asked, Ids{static_cast<std::int32_t>(i < 3 ? i + 1 : i - 2)}) << i;
  }
  mask_in_turn({}, {.cls = 1, .sep = 2, .mask = 3}, 3, [](const MaskedText&) { FAIL(); });
}

}  // namespace
}  // namespace mt
