#include "text/bpe/word_split.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/bpe/deepseek_split.h"

namespace mt {

using Pieces = std::vector<std::string>;

static Pieces split(Splitter splitter, std::string_view text) {
  Pieces pieces;
  std::vector<std::size_t> ends(3);
  std::size_t at = 0;
  while (const std::size_t count = splitter(text, at, ends))
    for (std::size_t i = 0; i < count; at = ends[i], ++i)
      pieces.emplace_back(text.substr(at, ends[i] - at));
  return pieces;
}

TEST(WordSplit, ASignBeginsAWord) {
  const std::string_view text = "(see\u00A0it) \tx_y";
  const Pieces expected = {"(see", "\u00A0it", ")", " ", "\tx", "_y"};
  for (const Splitter splitter : {megatron_v1_split, megatron_v2_split, llama3_split, o200k_split})
    EXPECT_EQ(split(splitter, text), expected);
}

TEST(WordSplit, Numbers) {
  EXPECT_EQ(split(megatron_v1_split, "a1234 5"), (Pieces{"a", "1", "2", "3", "4", " ", "5"}));
  EXPECT_EQ(split(qwen2_split, "12"), (Pieces{"1", "2"}));
  EXPECT_EQ(split(llama3_split, "1234567 89"), (Pieces{"123", "456", "7", " ", "89"}));
}

TEST(WordSplit, Contractions) {
  EXPECT_EQ(split(megatron_v1_split, "he'll"), (Pieces{"he", "'ll"}));  // a sign and a word
  EXPECT_EQ(split(megatron_v1_split, "he'llo"), (Pieces{"he", "'llo"}));
  EXPECT_EQ(split(llama3_split, "he'LLo I'\u017Fo"),
            (Pieces{"he", "'LL", "o", " I", "'\u017F", "o"}));
  EXPECT_EQ(split(o200k_split, "he'LLo it's'"), (Pieces{"he'LL", "o", " it's", "'"}));
  EXPECT_EQ(split(o200k_split, "a'"), (Pieces{"a", "'"}));
}

TEST(WordSplit, CaseEndsAWord) {
  EXPECT_EQ(split(megatron_v2_split, "HTTPServer iPhone"), (Pieces{"HTTPServer", " i", "Phone"}));
  EXPECT_EQ(split(megatron_v2_split, "ABC!ABC"), (Pieces{"ABC", "!ABC"}));
  EXPECT_EQ(split(megatron_v2_split, "AB\u6C34CD!"), (Pieces{"AB\u6C34", "CD", "!"}));
  EXPECT_EQ(split(megatron_v2_split, "\u0301AB"), (Pieces{"\u0301", "AB"}));  // a mark is a letter
  EXPECT_EQ(split(megatron_v2_split, "!\u0301a"), (Pieces{"!\u0301a"}));
}

TEST(WordSplit, WhiteSpace) {
  EXPECT_EQ(split(llama3_split, "a \n\n  b"), (Pieces{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(split(llama3_split, "a!\r\n b"), (Pieces{"a", "!\r\n", " b"}));
  EXPECT_EQ(split(o200k_split, "a!/\n b"), (Pieces{"a", "!/\n", " b"}));
  EXPECT_EQ(split(llama3_split, " \n  "), (Pieces{" \n", "  "}));
  EXPECT_EQ(split(cl100k_split, " \n  "), Pieces{" \n  "});
  EXPECT_EQ(split(llama3_split, ""), Pieces{});
}

TEST(WordSplit, AnyBytesComeBack) {
  std::string text;
  for (int i = 0; i < 65536; ++i) text += {static_cast<char>(i >> 8), static_cast<char>(i)};
  for (const Splitter splitter :
       {megatron_v1_split, megatron_v2_split, llama3_split, o200k_split}) {
    std::string together;
    for (const std::string& piece : split(splitter, text)) together += piece;
    EXPECT_EQ(together, text);
  }
}

// Where its three expressions meet; hf_regex_test.cpp compares it with them.
TEST(DeepSeekSplit, WhatOneExpressionTakesEndsTheTextOfTheNext) {
  EXPECT_EQ(split(deepseek_split, "a  1234  \u6c34\u3042  b"),
            (Pieces{"a", "  ", "123", "4", "  ", "\u6c34\u3042", " ", " b"}));
  EXPECT_EQ(split(deepseek_split, "e\u0301\u6c34\u0301x"),
            (Pieces{"e\u0301", "\u6c34", "\u0301x"}));
  EXPECT_EQ(split(deepseek_split, "_ab\u00e9 (((c \u20ac!\n\n"),
            (Pieces{"_ab", "\u00e9", " (((", "c", " \u20ac!\n\n"}));
  EXPECT_EQ(split(deepseek_split, "\x01\x02\x03g \x01 \n \tz"),
            (Pieces{"\x01\x02", "\x03g", " ", "\x01", " \n", " ", "\tz"}));
  EXPECT_EQ(split(deepseek_split, "\u6c34\u3042\u30fb\u30a0a!"),
            (Pieces{"\u6c34\u3042", "\u30fb\u30a0", "a", "!"}));
  EXPECT_EQ(split(deepseek_split, "\x01\x02\x37\x01\u6c34"),
            (Pieces{"\x01\x02", "7", "\x01", "\u6c34"}));
}

}  // namespace mt
