#include "eval/windows.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt {
namespace {

std::vector<Window> windows_of(std::int64_t tokens, const Windows& windows) {
  std::vector<Window> all;
  for (std::int64_t i = 0; i < windows.count(tokens); ++i) all.push_back(windows.at(i, tokens));
  return all;
}

// What Megatron-LM's tasks/zeroshot_gpt/datasets.py cuts, with its loss masks summed.
TEST(Windows, AsMegatron) {
  using List = std::vector<Window>;
  EXPECT_EQ(windows_of(20, {8, 4}),
            (List{{0, 9, 8}, {4, 9, 4}, {8, 9, 4}, {12, 8, 3}, {16, 4, 0}}));
  EXPECT_EQ(windows_of(23, {8, 4}),
            (List{{0, 9, 8}, {4, 9, 4}, {8, 9, 4}, {12, 9, 4}, {16, 7, 2}, {20, 3, 0}}));
  EXPECT_EQ(windows_of(21, {8, 8}), (List{{0, 9, 8}, {8, 9, 8}, {16, 5, 4}}));
  EXPECT_EQ(windows_of(5, {8, 4}), (List{{0, 5, 4}}));
  EXPECT_EQ(windows_of(9, {8, 8}), (List{{0, 9, 8}}));
  const List hundred = windows_of(100, {16, 16});
  EXPECT_EQ(hundred.size(), 7U);
  EXPECT_EQ(hundred.back(), (Window{96, 4, 3}));
}

// Each token but the first is scored once and in order, after at least length - stride tokens where
// the text has them, and no window is longer than it may be.
TEST(Windows, ScoreEveryTokenOnce) {
  for (std::int64_t tokens = 1; tokens <= 40; ++tokens)
    for (std::int64_t length = 1; length <= 12; ++length)
      for (std::int64_t stride = 1; stride <= length; ++stride) {
        std::int64_t scored = 0;
        for (const Window& w : windows_of(tokens, {length, stride})) {
          ASSERT_LE(w.tokens, length + 1);
          ASSERT_GE(w.tokens, 1);
          ASSERT_LE(w.begin + w.tokens, tokens);
          if (w.scored == 0) continue;
          ASSERT_EQ(w.begin + w.tokens - w.scored, scored + 1);
          ASSERT_TRUE(w.begin == 0 || w.tokens - w.scored >= length - stride);
          scored += w.scored;
        }
        ASSERT_EQ(scored, tokens - 1) << tokens << ' ' << length << ' ' << stride;
      }
}

}  // namespace
}  // namespace mt
