#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int32_t kEod = 99;
using Ids = std::vector<std::int32_t>;

// Every token costs its own number plus a thousandth of its context's length.
class Fake {
 public:
  void operator()(std::span<const std::span<const std::int32_t>> ids,
                  std::span<const std::span<double>> nll) {
    ASSERT_EQ(ids.size(), nll.size());
    largest_group = std::max(largest_group, ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      windows.emplace_back(ids[i].begin(), ids[i].end());
      ASSERT_GE(nll[i].size(), 1U);
      ASSERT_LT(nll[i].size(), ids[i].size());
      const std::size_t first = ids[i].size() - nll[i].size();
      for (std::size_t j = 0; j < nll[i].size(); ++j)
        nll[i][j] = ids[i][first + j] + 0.001 * static_cast<double>(first + j);
    }
  }
  std::vector<Ids> windows;
  std::size_t largest_group = 0;
};

std::vector<TextScore> score(Fake& fake, const std::vector<Ids>& texts, const Windows& windows,
                             const Ids& in_front = {}) {
  std::vector<TextScore> scores;
  TextScorer scorer(
      kEod, in_front, windows, [&](auto ids, auto nll) { fake(ids, nll); },
      [&](const TextScore& s) { scores.push_back(s); });
  for (const Ids& text : texts) scorer.add({text, 4, 20});
  scorer.finish();
  return scores;
}

// Five tokens in windows of two, by hand: (eod) 1 2 | (2) 3 4 | (4) 5.
TEST(Perplexity, HandComputed) {
  Fake fake;
  const TextScore result = score(fake, {{1, 2, 3, 4, 5}}, {2, 2}).at(0);
  EXPECT_EQ(fake.windows, (std::vector<Ids>{{99, 1, 2}, {2, 3, 4}, {4, 5}}));
  EXPECT_DOUBLE_EQ(result.nll, 1.001 + 2.002 + 3.001 + 4.002 + 5.001);
  EXPECT_EQ(result.tokens, 5);
  EXPECT_EQ(result.words, 4);
  EXPECT_EQ(result.bytes, 20);
  EXPECT_DOUBLE_EQ(result.nats_per_token(), 15.007 / 5);
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(15.007 / 5));
  EXPECT_DOUBLE_EQ(result.adjusted_perplexity(), std::exp(15.007 / 4));
  EXPECT_DOUBLE_EQ(result.bits_per_byte(), 15.007 / std::log(2) / 20);
}

// What the tokenizer puts in front is context: of one token, of two, of the parts of a list, and
// where a window begins with it; a text that lacks it stands behind the end of a document.
TEST(Perplexity, WhatTheTokenizerPutsInFrontIsContext) {
  Fake fake;
  const TextScore one = score(fake, {{50, 1, 2, 3}}, {2, 2}, {50}).at(0);
  EXPECT_EQ(fake.windows, (std::vector<Ids>{{50, 1, 2}, {2, 3}}));
  EXPECT_DOUBLE_EQ(one.nll, 1.001 + 2.002 + 3.001);
  EXPECT_EQ(one.tokens, 3);
  const TextScore two = score(fake, {{50, 51, 1, 2}}, {9, 9}, {50, 51}).at(0);
  EXPECT_DOUBLE_EQ(two.nll, 1.002 + 2.003);
  EXPECT_EQ(two.tokens, 2);
  const TextScore list = score(fake, {{50, 1, 50, 2}}, {9, 9}, {50}).at(0);
  EXPECT_DOUBLE_EQ(list.nll, 1.001 + 2.003);
  EXPECT_EQ(list.tokens, 2);
  const TextScore without = score(fake, {{1, 2}}, {9, 9}, {50}).at(0);
  EXPECT_EQ(fake.windows.back(), (Ids{kEod, 1, 2}));
  EXPECT_EQ(without.tokens, 2);
  EXPECT_EQ(score(fake, {{50}}, {9, 9}, {50}).at(0).tokens, 0);
}

// Windows of three, two apart: (eod) 1 2 3 | (2) (3) 4 5 | (4) (5) 6.
TEST(Perplexity, Overlapping) {
  Fake fake;
  const TextScore result = score(fake, {{1, 2, 3, 4, 5, 6}}, {3, 2}).at(0);
  EXPECT_EQ(fake.windows, (std::vector<Ids>{{99, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 6}}));
  EXPECT_DOUBLE_EQ(result.nll, 1.001 + 2.002 + 3.003 + 4.002 + 5.003 + 6.002);
}

// Megatron's results for a loss, n - 1 scored tokens and num_original - 1 words.
TEST(Perplexity, AdjustedAsMegatron) {
  const TextScore one{.nll = 2.3 * 1000, .tokens = 1000, .words = 900};
  EXPECT_DOUBLE_EQ(one.token_ratio(), 1.1111111111111112);
  EXPECT_NEAR(one.perplexity(), 9.9742, 5e-5);
  EXPECT_NEAR(one.adjusted_perplexity(), 12.878, 5e-4);
  const TextScore wikitext{.nll = 2.5 * 287644, .tokens = 287644, .words = 245566};
  EXPECT_DOUBLE_EQ(wikitext.token_ratio(), 1.1713510828046227);
  EXPECT_NEAR(wikitext.adjusted_perplexity(), 18.697, 5e-4);
}

// Each text has the score that it has alone, whatever is scored beside it, in the order of the
// texts; none is lost, neither empty ones nor one of many groups of windows.
TEST(Perplexity, TextsAreIndependent) {
  std::vector<Ids> texts;
  for (const std::size_t length : {3, 0, 1, 200000, 0, 7, 90000, 40000, 2}) {
    Ids& text = texts.emplace_back(length);
    for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<std::int32_t>(i * i % 37);
  }
  for (const Windows& windows : {Windows{64, 64}, Windows{64, 5}}) {
    Fake fake;
    const std::vector<TextScore> scores = score(fake, texts, windows);
    EXPECT_GT(fake.largest_group, 500U);
    ASSERT_EQ(scores.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Fake other;
      EXPECT_EQ(scores[i].nll, score(other, {texts[i]}, windows).at(0).nll) << i;
      EXPECT_EQ(scores[i].tokens, static_cast<std::int64_t>(texts[i].size()));
    }
  }
}

TEST(Perplexity, OneTokenAndNone) {
  Fake fake;
  EXPECT_DOUBLE_EQ(score(fake, {{7}}, {5, 5}).at(0).nll, 7.001);
  EXPECT_EQ(score(fake, {{}}, {5, 5}).at(0).nll, 0);
  EXPECT_TRUE(score(fake, {}, {5, 5}).empty());
  EXPECT_EQ(fake.windows.size(), 1U);
}

TEST(Perplexity, AModelThatIsBroken) {
  TextScorer scorer(
      kEod, {}, {2, 2}, [](auto, auto nll) { std::ranges::fill(nll[0], std::nan("")); },
      [](const TextScore&) { ADD_FAILURE(); });
  scorer.add({Ids{1, 2}, 1, 3});
  try {
    scorer.finish();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
  }
}

// The total of several texts weighs every token alike.
TEST(Perplexity, SumsOverTexts) {
  TextScore total;
  total += {.nll = 6, .tokens = 3, .words = 1, .bytes = 10};
  total += {.nll = 2, .tokens = 5, .words = 3, .bytes = 6};
  total += {};
  EXPECT_EQ(total.nats_per_token(), 1);
  EXPECT_EQ(total.token_ratio(), 2);
  EXPECT_DOUBLE_EQ(total.bits_per_byte(), 8 / std::log(2) / 16);
}

}  // namespace
}  // namespace mt
