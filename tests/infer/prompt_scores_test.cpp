#include "infer/prompt_scores.h"

#include <gtest/gtest.h>

#include "infer/score_pass.h"
#include "tests/infer/small_gpt.h"

namespace mt {
namespace {

// As likely as ScorePass finds them, and no alternative is likelier than those before it.
TEST(PromptScores, AreThoseOfAScorePass) {
  for (const ModelConfig& config : {small_gpt2(), small_llama()}) {
    const auto model = make_gpt(config);
    PromptScores scores(*model, 30, 1);
    ScorePass pass(*model, {.vocab_size = 30, .window = 11, .threads = 1});
    for (const std::size_t length : {2, 12, 5, 1}) {
      const std::vector<std::int32_t> ids = some_tokens(length);
      const std::vector<LogProbs> got = scores.score(ids, 3);
      ASSERT_EQ(got.size(), length - 1);
      if (length == 1) continue;
      std::vector<double> expected(length - 1);
      const std::span<const std::int32_t> all(ids);
      const std::span<double> into(expected);
      pass.score({&all, 1}, {&into, 1});
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i].chosen, -expected[i], 1e-12);
        ASSERT_EQ(got[i].top.size(), 3U);
        EXPECT_GE(got[i].top[0].second, got[i].top[1].second);
        EXPECT_GE(got[i].top[0].second, got[i].chosen);
      }
    }
  }
}

}  // namespace
}  // namespace mt
