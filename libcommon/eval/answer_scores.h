// answer_scores: how good answers to questions are, as Megatron-LM core_v0.12.1 scores those of an
// InstructRetro (tools/retro/text_generation/evaluate.py and metrics.py): the share that is one of
// the right ones, and the words that they have in common with the first of them.  Texts are
// compared in lower case, with punctuation of ASCII's deleted, or, for words, as space, without the
// words a, an and the, and with one space between words.
//
// A file of questions is JSON, an array; where its name ends in .txt, a line of JSON for each;
// where it ends in .lst, a line of text for each, the answer.  Of an object `answers` has the right
// answers, texts or objects with a `text`, or `answer` has them, or the one.  Where "dev" is in the
// file's name, the first 3000 are counted as right or wrong. Answers are lines of text or, where
// the first begins with a brace, lines of JSON, whose `pred`, or `text` as mt-generate writes it,
// is the answer.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class CommandLine;

// Words of a text as they are compared; punctuation ends a word, or, where it is deleted, does not.
std::vector<std::string> compared_words(std::string_view text, bool delete_punctuation);

// How much of a guess is in the answer, how much of the answer in the guess, and their harmonic
// mean.
struct WordOverlap {
  double precision = 0, recall = 0, f1 = 0;
};
WordOverlap word_overlap(std::string_view guess, std::string_view answer);

struct AnswerScores {
  std::int64_t answers = 0;   // that are counted as right or wrong
  std::int64_t compared = 0;  // whose words are compared: those of questions with an answer
  double exact = 0;           // share of them that is right
  WordOverlap overlap = {};   // means
};

// `right`: of each question the right answers, as many questions as there are answers or more.
// `counted`: as many of the answers are counted as right or wrong.  Exit::bad_data where none is.
AnswerScores score_answers(std::span<const std::string> answers,
                           std::span<const std::vector<std::string>> right, std::size_t counted);

struct AnswerScoresOptions {
  std::string answers, questions, method = "default";
  bool json = false;
  void add_to(CommandLine& cl);
};

// Prints what Megatron-LM prints, or a line of JSON:
//   {"schema":"mt-answers/1","answers":2,"exact_match":0.5,"compared":2,"precision":0.5,…}
void score_answers(const AnswerScoresOptions& options, std::ostream& out);

}  // namespace mt
