#include "text/hf/hf_regex.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json_object.h"
#include "tests/base/scratch.h"
#include "text/bpe/deepseek_split.h"
#include "text/hf/hf_patterns.h"

namespace mt {

static HfRegex regex_of(const std::string& expression) {
  static simdjson::dom::parser parser;
  simdjson::dom::element empty;
  EXPECT_FALSE(parser.parse("{}", 2).get(empty));
  return {expression, JsonObject(empty, "x")};
}

// The parts of a word, the matches in angle brackets.
static std::string parts_of(const std::string& expression, std::string_view word) {
  std::vector<HfPart> parts;
  regex_of(expression).match(word, parts);
  std::string result;
  std::size_t at = 0;
  for (const auto& [end, match] : parts) {
    const std::string_view part = word.substr(at, end - at);
    result += match ? concat("<", part, ">") : concat(part, ";");
    at = end;
  }
  return result;
}

TEST(HfRegex, FindsMatchesAndWhatIsBetween) {
  EXPECT_EQ(parts_of("b+", "abbcb"), "a;<bb>c;<b>");
  EXPECT_EQ(parts_of("x", "ab"), "ab;");
  EXPECT_EQ(parts_of("x", ""), "");
  EXPECT_EQ(parts_of("b*", "abbc"), "<>a;<bb>c;<>");  // none behind another match
  EXPECT_EQ(parts_of("(?=b)", "ab"), "a;<>b;");
  EXPECT_EQ(parts_of("^.|$", "a\nbc"), "<a>\n;<b>c;<>");
}

TEST(HfRegex, ClassesAreOfUnicode16) {
  EXPECT_EQ(parts_of("\\p{L}+", "a\u00E9\U00010D4A1"), "<a\u00E9\U00010D4A>1;");  // new in 16.0
  EXPECT_EQ(parts_of("[^\\s\\p{N}]", "a\u30001"), "<a>\u30001;");
  EXPECT_EQ(parts_of("[\\p{Lu}\\p{Lt}]", "aB\u01C5"), "a;<B><\u01C5>");
  EXPECT_EQ(parts_of("\\P{L}|\\p{^N}", "1a"), "<1><a>");
  EXPECT_EQ(parts_of("[\\x{4e00}-\\u4e0f\\x41\\-]", "A-\u4E05z"), "<A><-><\u4E05>z;");
  EXPECT_EQ(parts_of("(?i:'s|k)", "'S'\u017F\u212A"), "<'S><'\u017F><\u212A>");
}

TEST(HfRegex, Replaces) {
  EXPECT_EQ(regex_of(" {2,}").replace("a  b   c d", "_"), "a_b_c d");
  for (const char* const expression : {"x", "x*", "$", "\\A"})
    EXPECT_EQ(regex_of(expression).replace("", "_"), "");
}

// The parts are those of tokenizers 0.21.4 and 0.23.3, whose Oniguruma compares as many bytes as
// the group has.
TEST(HfRegex, BackReferencesInAnyCase) {
  const std::pair<const char*, std::string> cases[] = {
      {R"((?i)([a-z])\1)", "!|ss| |sS"},
      {R"((?i)([a-z])\1)", "!s\u017Fx"},
      {R"((?i)([a-z])\1)", "!|\u017Fs|x"},
      {R"((?i)([a-z])\1)", "!\u017Fs"},
      {R"((?i)([a-z])\1)", "!k\u212A.."},
      {R"((?i)([a-z])\1)", "!|\u212Ak|.."},
      {R"((?i)([a-z])\1)", "!\u212Ak."},
      {R"((?i)([a-z])\1)", "!|\u212A\u212A"},
      {R"((?i)(.)\1)", "!\u00E5\u212B."},
      {R"((?i)(.)\1)", "!|\u212B\u00E5|."},
      {R"((?i)(.)\1)", "!\u212B\u00E5"},
      {R"((?i)(.)\1)", "!\u00DF\u1E9E"},
      {R"((?i)(.)\1)", "!|\u1E9E\u00DF|."},
      {R"((?i)(.)\1)", "!|\u00E9\u00C9"},
      {R"((?i)(?<two>..)x\k<two>)", "!sax\u017FA."},
      {R"((?i)(?<two>..)x\k<two>)", "!|\u017FaxSA|."},
      {R"((?i)(?<two>..)x\k<two>)", "!\u017FaxSA"},
      {R"((?i)(.)(.)\k<-2>)", "!|aBA|-"},
      {R"((?i)(.)(.)\k<-2>)", "!|\u2126a\u03A9|."},
      {R"((?i)(.)(.)\k<-2>)", "!\u2126a\u03A9"},
      {R"((?i)(\w+)-\1+)", "!stra\u00DFe-STRA\u1E9EE."},
      {R"((?i)(\w+)-\1+)", "!STRA\u1E9EE-stra\u00DFe"},
      {R"((?i)(\w+)-\1+)", "!|STRA\u1E9EE-stra\u00DFe|."},
      {R"((?i)(\w+)-\1+)", "!|Ab-aBABab|."}};
  for (const auto& [expression, right] : cases) {
    std::string word = right, parts;
    std::erase(word, '|');
    std::vector<HfPart> found;
    regex_of(expression).match(word, found);
    std::size_t at = 0;
    for (const auto& [end, match] : found) {
      parts += concat(parts.empty() ? "" : "|", word.substr(at, end - at));
      at = end;
    }
    EXPECT_EQ(parts, right) << expression;
  }
}

// Many large sets do not fit into one expression of PCRE2's; then they are shared.
TEST(HfRegex, AnExpressionMayBeLarge) {
  std::string expression;
  for (int i = 0; i < 40; ++i)
    expression += concat(i == 0 ? "" : "|", "[^\\p{L}\\x{", 100 + i, "}]\\p{L}\\P{Ll}");
  EXPECT_EQ(parts_of(expression + "|(x)\\1", "1aB xxé"), "<1aB> ;<xx>é;");
}

TEST(HfRegex, RefusesWhatIsReadDifferently) {
  const auto error = [](const std::string& expression) {
    std::string line = error_of([&] { regex_of(expression); });
    const std::string start = "65 x: the regular expression ";
    EXPECT_EQ(line.substr(0, start.size()), start);
    return line.substr(line.find(": ", start.size()) + 2);
  };
  EXPECT_EQ(error("(?~ab)"), "the group \"(?~\" at byte 1 is not supported");
  EXPECT_EQ(error("(?(1)a)"), "the group \"(?(\" at byte 1 is not supported");
  EXPECT_EQ(error("\\y"), "\\y at byte 1 is not supported");
  EXPECT_EQ(error("\\xe9"), "the byte \"e9\" at byte 2 is not supported");
  EXPECT_EQ(error("(a)\\2"), "\\2 at byte 4 is not supported");
  EXPECT_EQ(error("(?<a>b)\\k<1>"), "a number beside names at byte 12 is not supported");
  EXPECT_EQ(error("\\p{Nothing}"), "\\p{Nothing} at byte 11 is not supported");
  EXPECT_EQ(error("[b-a]"), "a range that ends before it begins at byte 4 is not supported");
  EXPECT_EQ(error("\\b+"), "a quantifier of what is not to be repeated at byte 2 is not supported");
  EXPECT_EQ(error(std::string(300, '(') + std::string(300, ')')),
            "a group that deep in groups at byte 201 is not supported");
  EXPECT_EQ(error(std::string(300, '[') + "a" + std::string(300, ']')),
            "a class that deep in classes at byte 102 is not supported");
  EXPECT_EQ(error("(a"), "a group without its end at byte 2 is not supported");
  EXPECT_EQ(error("a)"), "a group's end without its start at byte 1 is not supported");
  EXPECT_EQ(error("*a"), "the quantifier \"*\", of nothing, at byte 0 is not supported");
  EXPECT_EQ(error("[a"), "a class without its end at byte 2 is not supported");
  EXPECT_EQ(error("\\x{110000}"), "the code point \"110000\" at byte 10 is not supported");
  EXPECT_EQ(error("(?<=a+)b"), "lookbehind assertion is not fixed length");
}

TEST(HfRegex, ASearchWithoutAnEndIsStopped) {
  const std::string line = error_of([] { parts_of("(?:a|aa|aaa)*[bc]", std::string(3000, 'a')); });
  EXPECT_EQ(line,
            "65 the regular expression \"(?:a|aa|aaa)*[bc]\" on a word of 3000 bytes: match limit "
            "exceeded");
}

// Where words end when expressions cut them one after another, each match and all between two a
// word.
static std::vector<std::size_t> ends_by(const std::vector<HfRegex>& expressions,
                                        const std::string& text) {
  std::vector<std::size_t> ends = {text.size()};
  for (const HfRegex& expression : expressions) {
    std::vector<std::size_t> cut;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      std::vector<HfPart> parts;
      expression.match(std::string_view(text).substr(begin, end - begin), parts);
      for (const HfPart& part : parts) cut.push_back(begin + part.end);
      begin = end;
    }
    ends = std::move(cut);
  }
  return ends;
}

TEST(HfRegex, DeepSeeksSplitterFindsWhatItsExpressionsFind) {
  const auto third = [](std::string_view line_ends) {
    return concat(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)", line_ends,
                  R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)", line_ends, R"(]*|\s*[)",
                  line_ends, R"(]+|\s+(?!\S)|\s+)");
  };
  std::vector<std::string> texts = {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                                    third(R"(\r\n)")};
  ASSERT_EQ(known_splitter(texts), deepseek_split);
  texts[2] = third("\r\n");  // as the model's file has them
  ASSERT_EQ(known_splitter(texts), deepseek_split);
  std::vector<HfRegex> expressions;
  for (const std::string& text : texts) expressions.push_back(regex_of(text));
  const std::vector<std::string> characters = {
      " ",      " ",      "\n",         "\r",     "\t",     "a",      "Z",      "!",
      "$",      "7",      "8",          "\u00e9", "\u0301", "\u00a0", "\u2028", "\u0085",
      "\u00b2", "\u20ac", "\x01",       "\x7f",   "_",      "\u200d", "\u6c34", "\u3042",
      "\u30fb", "\u3099", "\U0001F600", "\u9fa6", "\u216b", "\u24b6"};
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = 1 + random() % 24; n > 0; --n) text += characters[random() % characters.size()];
    std::vector<std::size_t> ends(text.size());
    ends.resize(deepseek_split(text, 0, ends));
    ASSERT_EQ(ends, ends_by(expressions, text)) << text;
  }
}

}  // namespace mt
