// Answers in passages, and lists of them as Python writes them.
#include "retro/answer_match.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

bool has(const std::string& passage, const std::string& answer, bool as_regex = false) {
  return AnswerMatch(std::vector{answer}, as_regex)(passage);
}

// What Megatron-LM's SimpleTokenizer gives.
TEST(AnswerMatch, WordsAreDecomposedAndInLowerCase) {
  EXPECT_EQ(answer_words("The U.S. caf\u00e9's 1,000 dogs-cats"),
            (std::vector<std::string>{"the", "u", ".", "s", ".", "cafe\u0301", "'", "s", "1", ",",
                                      "000", "dogs", "-", "cats"}));
  EXPECT_EQ(answer_words(" a\tb\u200bc\u00a0d\n"), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(answer_words("\u03a3\u0391\u03a3 \u0130"),
            (std::vector<std::string>{"\u03c3\u03b1\u03c3", "i\u0307"}));
}

TEST(AnswerMatch, AnAnswersWordsFollowEachOther) {
  EXPECT_TRUE(has("in the U.S. today", "U.S."));
  EXPECT_FALSE(has("in the U.S. today", "US"));
  EXPECT_FALSE(has("a caf\u00e9", "cafe"));
  EXPECT_TRUE(has("a caf\u00e9", "CAFE\u0301"));
  EXPECT_FALSE(has("two dogs", "dog"));
  EXPECT_FALSE(has("Ann and Bob", "Ann Bob"));
  EXPECT_THROW(has("any", " "), Error);
}

TEST(AnswerMatch, AnExpressionMatchesAnywhere) {
  EXPECT_TRUE(has("In 1984, say", "19[0-9]{2}", true));
  EXPECT_TRUE(has("two\nDOGS", "^dogs$", true));
  EXPECT_FALSE(has("two dogs", "^dogs", true));
  EXPECT_THROW(has("any", "(", true), Error);
}

TEST(AnswerMatch, ListsAreAsPythonWritesThem) {
  const auto texts = [](const char* list) { return python_texts(list, "here"); };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("['a', \"b's\"]"), (Texts{"a", "b's"}));
  EXPECT_EQ(texts("[]"), Texts());
  EXPECT_EQ(texts(" [ 'a' , ] "), Texts{"a"});
  EXPECT_EQ(texts(R"(['\'\\\n\x41\u00e9\U0001F600\d'])"), Texts{"'\\\nA\u00e9\U0001F600\\d"});
  for (const char* wrong : {"", "a", "['a'", "['a' 'b']", "['a]", "[1]", "['a'] x", R"(['\xZ0'])",
                            R"(['\)", "[,]", "__import__('os')"})
    EXPECT_THROW(texts(wrong), Error) << wrong;
}

}  // namespace
}  // namespace mt
