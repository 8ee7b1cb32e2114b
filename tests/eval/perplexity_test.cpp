#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int32_t kEod = 99;

// Every token costs its own number plus a thousandth of its context's length.
class Fake {
 public:
  void operator()(std::span<const std::int32_t> ids, std::span<double> nll) {
    ASSERT_EQ(ids.size(), nll.size() + 1);
    ASSERT_GE(ids.size(), 2U);
    windows.emplace_back(ids.begin(), ids.end());
    for (std::size_t i = 0; i < nll.size(); ++i)
      nll[i] = ids[i + 1] + 0.001 * static_cast<double>(i + 1);
  }
  std::vector<std::vector<std::int32_t>> windows;
};

TextScore score(Fake& fake, const std::vector<std::int32_t>& tokens, std::int64_t window) {
  return score_text(tokens, 20, kEod, window, [&](auto ids, auto nll) { fake(ids, nll); });
}

// Five tokens in windows of two, by hand: (eod) 1 2 | (2) 3 4 | (4) 5.
TEST(Perplexity, HandComputed) {
  Fake fake;
  const TextScore result = score(fake, {1, 2, 3, 4, 5}, 2);
  EXPECT_EQ(fake.windows, (std::vector<std::vector<std::int32_t>>{{99, 1, 2}, {2, 3, 4}, {4, 5}}));
  EXPECT_DOUBLE_EQ(result.nll, 1.001 + 2.002 + 3.001 + 4.002 + 5.001);
  EXPECT_EQ(result.tokens, 5);
  EXPECT_EQ(result.bytes, 20);
  EXPECT_DOUBLE_EQ(result.nats_per_token(), 15.007 / 5);
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(15.007 / 5));
  EXPECT_DOUBLE_EQ(result.bits_per_byte(), 15.007 / std::log(2) / 20);
}

// Every token is scored once, after its predecessor, and no window is longer than asked for.
TEST(Perplexity, WindowsCoverEveryTokenOnce) {
  for (std::size_t count = 0; count <= 20; ++count)
    for (std::int64_t window = 1; window <= 22; ++window) {
      std::vector<std::int32_t> tokens, scored;
      for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i));
      Fake fake;
      const TextScore result = score(fake, tokens, window);
      EXPECT_EQ(result.tokens, static_cast<std::int64_t>(count));
      for (const auto& ids : fake.windows) {
        EXPECT_LE(ids.size(), static_cast<std::size_t>(window) + 1);
        EXPECT_EQ(ids.front(), scored.empty() ? kEod : scored.back());
        scored.insert(scored.end(), ids.begin() + 1, ids.end());
      }
      EXPECT_EQ(scored, tokens) << count << " tokens, window " << window;
    }
}

TEST(Perplexity, OneTokenAndNone) {
  Fake fake;
  EXPECT_DOUBLE_EQ(score(fake, {7}, 5).nll, 7.001);
  EXPECT_EQ(score(fake, {}, 5).nll, 0);
  EXPECT_EQ(fake.windows.size(), 1U);
}

TEST(Perplexity, AModelThatIsBroken) {
  try {
    score_text(std::vector<std::int32_t>{1, 2, 3}, 3, kEod, 2,
               [](auto ids, auto nll) { std::ranges::fill(nll, std::log(-1.0 * ids[0])); });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
  }
}

// The total of several texts weighs every token alike.
TEST(Perplexity, SumsOverTexts) {
  TextScore total;
  total += {.nll = 6, .tokens = 3, .bytes = 10};
  total += {.nll = 2, .tokens = 5, .bytes = 6};
  total += {};
  EXPECT_EQ(total.nats_per_token(), 1);
  EXPECT_DOUBLE_EQ(total.bits_per_byte(), 8 / std::log(2) / 16);
}

}  // namespace
}  // namespace mt
