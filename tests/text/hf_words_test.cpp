#include "text/hf/hf_words.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "text/hf/hf_added_tokens.h"
#include "text/hf/hf_normal_forms.h"
#include "text/hf/hf_precompiled.h"
#include "text/hf/hf_tables.h"

namespace mt {

// Digits are the matches.
static std::string cut(std::string text, HfBehavior behavior, bool invert = false) {
  const HfMatcher digits = [](std::string_view word, std::vector<HfPart>& parts) {
    for (std::size_t i = 0; i < word.size(); ++i)
      parts.push_back({i + 1, word[i] >= '0' && word[i] <= '9'});
  };
  HfWords words{.text = text, .ends = {text.size()}, .at_start = true};
  hf_cut(words, digits, behavior, invert);
  std::string result = words.at_start ? "" : "~";
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    result += concat(words.text.substr(begin, end - begin), "|");
    begin = end;
  }
  return result;
}

TEST(HfWords, BehaviorsSayWhereAMatchBelongs) {
  EXPECT_EQ(cut("a12b3", HfBehavior::isolated), "a|1|2|b|3|");
  EXPECT_EQ(cut("a12b3", HfBehavior::removed), "a|b|");
  EXPECT_EQ(cut("1a", HfBehavior::removed), "~a|");
  EXPECT_EQ(cut("a12b3", HfBehavior::removed, true), "~1|2|3|");
  EXPECT_EQ(cut("a12b3", HfBehavior::merged_with_previous), "a1|2|b3|");
  EXPECT_EQ(cut("1a23b", HfBehavior::merged_with_previous), "1|a2|3|b|");
  EXPECT_EQ(cut("a12b3", HfBehavior::merged_with_next), "a|1|2b|3|");
  EXPECT_EQ(cut("1a23", HfBehavior::merged_with_next), "1a|2|3|");
  EXPECT_EQ(cut("ab12c", HfBehavior::contiguous), "ab|12|c|");
  EXPECT_EQ(cut("ab12c", HfBehavior::contiguous, true), "ab|12|c|");
}

static std::string found(const std::vector<HfAddedToken>& tokens, std::string_view text) {
  std::vector<HfAddedTokens::Part> parts;
  HfAddedTokens(tokens).find(text, parts);
  std::string result;
  for (const auto& [begin, end, id] : parts)
    result += concat(text.substr(begin, end - begin), id < 0 ? "" : concat("=", id), "|");
  return result;
}

TEST(HfAddedTokens, TheLeftmostThenTheLongestIsFound) {
  EXPECT_EQ(found({{1, "<a>"}, {2, "<a><b>"}, {3, "a"}}, "xa<a><b><a><c>"),
            "x|a=3|<a><b>=2|<a>=1|<c>|");
  EXPECT_EQ(found({}, "a"), "a|");
  EXPECT_EQ(found({{1, "a"}}, ""), "");
}

TEST(HfAddedTokens, TakeSpaceAlongAndStandAlone) {
  EXPECT_EQ(found({{.id = 1, .content = "<m>", .lstrip = true}}, "a \u3000<m> b"),
            "a| \u3000<m>=1| b|");
  EXPECT_EQ(found({{.id = 1, .content = "<m>", .rstrip = true}}, "a <m> \n<m>b"),
            "a |<m> \n=1|<m>=1|b|");
  const HfAddedToken word{.id = 1, .content = "so", .single_word = true};
  EXPECT_EQ(found({word}, "so also so! \u00e9so so_ so\u200d so"),
            "so=1| also |so=1|! \u00e9so so_ so\u200d |so=1|");
}

TEST(HfNormalForms, AreThoseOfTheLibrary) {
  using enum NormalForm;
  EXPECT_EQ(hf_normal_form("plain", nfc), "plain");
  EXPECT_EQ(hf_normal_form("e\u0301\u0323x", nfc), "\u1EB9\u0301x");
  EXPECT_EQ(hf_normal_form("\u1EB9\u0301", nfd), "e\u0323\u0301");
  EXPECT_EQ(hf_normal_form("\uAC01\uAC00", nfd), "\u1100\u1161\u11A8\u1100\u1161");
  EXPECT_EQ(hf_normal_form("\u1100\u1161\u11A8\u1161", nfc), "\uAC01\u1161");
  EXPECT_EQ(hf_normal_form("\uFB01\u2460\u1E9B\u0323", nfkc), "fi1\u1E69");
  EXPECT_EQ(hf_normal_form("\uFB01\u1E9B\u0323", nfd), "\uFB01\u017F\u0323\u0307");
  std::string marks, sorted[3];
  for (int i = 0; i < 40; ++i) {
    marks += "\u0301\u0323\u0328";  // of classes 230, 220 and 202
    sorted[0] += "\u0328";
    sorted[1] += "\u0323";
    sorted[2] += "\u0301";
  }
  EXPECT_EQ(hf_normal_form("x" + marks + "y", nfd),
            concat("x", sorted[0], sorted[1], sorted[2], "y"));
  EXPECT_EQ(hf_normal_form("\u0958", nfc), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(hf_normal_form("a\u0328\u0301\u0301", nfc), "\u0105\u0301\u0301");
  EXPECT_EQ(hf_normal_form("a\u1ABF\u0323", nfd), "a\u1ABF\u0323");  // not yet in Unicode 9
  const std::string parts = "\u0323x\u0301 e\u0301\u0323 y\u0323\u0301\u6C34\u0301";
  EXPECT_EQ(hf_normal_form(parts, nfd), "\u0323x\u0301 e\u0323\u0301 y\u0323\u0301\u6C34\u0301");
  EXPECT_EQ(hf_normal_form(parts, nfc), "\u0323x\u0301 \u1EB9\u0301 \u1EF5\u0301\u6C34\u0301");
  std::string lower;
  for (const char32_t point : {U'Σ', U'İ', U'\u1E9E', U'\u10A0'}) append_hf_lower(lower, point);
  EXPECT_EQ(lower, "σi\u0307ß\u2D00");
}

// The clusters of a text, each with a bar behind it.
static std::string clusters(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = hf_cluster_end(text, at);
    result += concat(text.substr(at, end - at), "|");
    at = end;
  }
  return result;
}

TEST(HfPrecompiled, ClustersAreThoseOfUnicode) {
  EXPECT_EQ(clusters("ab\r\n\n"), "a|b|\r\n|\n|");
  EXPECT_EQ(clusters("e\u0301\u0323x\u200Dy"), "e\u0301\u0323|x\u200D|y|");
  EXPECT_EQ(clusters("\n\u0301\u0600a"), "\n|\u0301|\u0600a|");
  EXPECT_EQ(clusters("\u1100\u1161\u11A8\u1100\uAC00\u11A8\u1161"),
            "\u1100\u1161\u11A8|\u1100\uAC00\u11A8|\u1161|");
  EXPECT_EQ(clusters("\u0915\u094D\u0937\u0915\u0937"), "\u0915\u094D\u0937|\u0915|\u0937|");
  EXPECT_EQ(clusters("\u2600\u200D\u2600\u2600"), "\u2600\u200D\u2600|\u2600|");
}

}  // namespace mt
