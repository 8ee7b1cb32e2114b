#include "eval/answer_scores.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"

namespace mt {
namespace {

std::string words(const std::string& text, bool delete_punctuation) {
  std::string all;
  for (const std::string& word : compared_words(text, delete_punctuation)) all += word + "|";
  return all;
}

// What Megatron-LM's two functions of one name make of these.
TEST(AnswerScores, WordsAreComparedAsMegatronComparesThem) {
  EXPECT_EQ(words("The U.S. cat's, hat!", true), "us|cats|hat|");
  EXPECT_EQ(words("The U.S. cat's, hat!", false), "u|s|cat|s|hat|");
  EXPECT_EQ(words("A theme, an answer, anathema", true), "theme|answer|anathema|");
  EXPECT_EQ(words("a-the b_an", true), "athe|ban|");
  EXPECT_EQ(words("a-the b_an", false), "b|");
  EXPECT_EQ(words("\u00c9COLE \u00fcber\u2003Stra\u00dfe", true),
            "\u00e9cole|\u00fcber|stra\u00dfe|");
  EXPECT_EQ(words("\u039f\u03b4\u03cc\u03a3 \u03a3", true), "\u03bf\u03b4\u03cc\u03c2|\u03c3|");
  EXPECT_EQ(words("the a an", false), "");
}

TEST(AnswerScores, OverlapIsOfWordsAsOftenAsTheyStand) {
  const auto expect = [](const WordOverlap& overlap, double precision, double recall, double f1) {
    EXPECT_NEAR(overlap.precision, precision, 1e-6);
    EXPECT_NEAR(overlap.recall, recall, 1e-6);
    EXPECT_NEAR(overlap.f1, f1, 1e-6);
  };
  expect(word_overlap("The cat sat on the mat", "a cat is on a mat today"), 0.75, 0.6, 0.666667);
  expect(word_overlap("14 December 1972", "December 1972"), 2 / 3.0, 1, 0.8);
  expect(word_overlap("no no no", "no"), 1 / 3.0, 1, 0.5);
  expect(word_overlap("", "no"), 0, 0, 0);
}

TEST(AnswerScores, CountsWhatIsRight) {
  const std::vector<std::string> answers = {" Answer: The Beatles<|endoftext|>", "A: 1972.", "x",
                                            "y"};
  const std::vector<std::vector<std::string>> right = {
      {"Beatles", "the band"}, {"in 1972", "1972"}, {}, {"no_passages_used"}, {"more"}};
  const AnswerScores scores = score_answers(answers, right, 4);
  EXPECT_EQ(scores.answers, 4);
  EXPECT_EQ(scores.exact, 0.5);
  EXPECT_EQ(scores.compared, 2);
  // "answer beatles" beside "beatles", and the article of "A: 1972." is none of its words.
  EXPECT_NEAR(scores.overlap.precision, (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(scores.overlap.recall, (1 + 0.5) / 2, 1e-12);
  EXPECT_EQ(score_answers(answers, right, 1).exact, 1);
  EXPECT_EQ(
      error_of([&] { score_answers(std::span(answers).last(2), std::span(right).last(3), 2); }),
      "65 there are no answers, or no question has a right one");
}

}  // namespace
}  // namespace mt
