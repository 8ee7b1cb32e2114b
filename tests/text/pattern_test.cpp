// Grammars of texts that regular expressions match as wholes, and of one of some texts.
#include "text/grammar/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

bool matches(const ByteGrammar& grammar, std::string_view text) {
  GrammarText at(grammar);
  GrammarText::Places places = at.at_beginning();
  for (const char c : text) {
    places = at.behind(places, static_cast<std::uint8_t>(c));
    if (places.none()) return false;
  }
  return places.whole;
}

void expect_texts(const ByteGrammar& grammar, const std::vector<std::string_view>& good,
                  const std::vector<std::string_view>& bad) {
  for (const std::string_view text : good) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string_view text : bad) EXPECT_FALSE(matches(grammar, text)) << text;
}

// Characters are as they are: no quotes, no escapes.
TEST(Pattern, IsTheWholeText) {
  for (const char* const pattern : {"^(a|b){2}\\.[0-9]+$", "(a|b){2}\\.[0-9]+"})
    expect_texts(grammar_of_pattern(pattern), {"ab.1", "aa.12"},
                 {"ab.", "xab.1", "ab.1x", "\"ab.1\""});
  expect_texts(grammar_of_pattern("[^a]\\n\\\"?"), {"\n\n", "\"\n\"", "é\n", "\\\n"},
               {"a\n", "\xC3\n"});
  expect_texts(grammar_of_pattern("a|^b$|"), {"", "a", "b"}, {"ab", "c"});
  expect_texts(grammar_of_pattern(".{2}"), {"é€", "ab"}, {"a", "a\n", "abc"});
}

TEST(Pattern, IsRefused) {
  for (const char* const pattern : {"(", "a**", "[b-a]", "\\b", "(?=a)"})
    EXPECT_THROW(grammar_of_pattern(pattern), Error) << pattern;
}

TEST(Pattern, OneOfSomeTexts) {
  expect_texts(grammar_of_texts({"yes", "yes, it is", "é\n\""}), {"yes", "yes, it is", "é\n\""},
               {"", "ye", "yes,", "yes, it is ", "no"});
}

}  // namespace
}  // namespace mt
