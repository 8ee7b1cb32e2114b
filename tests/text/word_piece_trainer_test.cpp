#include "text/training/word_piece_trainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/base/scratch.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"
#include "text/bert/bert_tokenizer.h"

namespace mt {
namespace {

using Tokens = std::vector<std::string>;

// The trained tokens behind the special ones.
Tokens train(std::string_view text, std::int32_t vocab_size, bool lower_case = true) {
  WordPieceTrainer trainer(lower_case);
  trainer.add(text);
  Tokens tokens = trainer.train(vocab_size);
  tokens.erase(tokens.begin(), tokens.begin() + WordPieceTrainer::kMinimumVocabSize);
  return tokens;
}

std::string trained_on_goldens(bool lower_case) {
  WordPieceTrainer trainer(lower_case);
  trainer.add(read_file(MT_TESTDATA "/stories/stories.jsonl"));
  std::ifstream cases(MT_TESTDATA "/wordpiece/cases.txt");
  for (std::string line; std::getline(cases, line);) {
    std::istringstream columns(line);
    std::string type, text;
    columns >> type >> text;
    if (type != "#") trainer.add(from_hex(text));
  }
  std::string lines;
  for (const std::string& token : trainer.train(512)) lines += token + "\n";
  return lines;
}

}  // namespace

TEST(WordPieceTrainer, GoldensOfHuggingFace) {
  EXPECT_EQ(trained_on_goldens(true), read_file(MT_TESTDATA "/wordpiece/trained-lower.txt"));
  EXPECT_EQ(trained_on_goldens(false), read_file(MT_TESTDATA "/wordpiece/trained-case.txt"));
}

TEST(WordPieceTrainer, CharactersThenThoseThatFollow) {
  EXPECT_EQ(train("cab b\u00E9", 12), (Tokens{"a", "b", "c", "e", "##a", "##b", "##e"}));
  EXPECT_EQ(train("Ab", 8, false), (Tokens{"A", "b", "##b"}));
  EXPECT_EQ(train("", 5), Tokens());
}

TEST(WordPieceTrainer, MostFrequentPairFirst) {
  // "##b ##c" three times, then "a ##bc" two times.
  EXPECT_EQ(train("abc abc xbc", 12), (Tokens{"a", "b", "c", "x", "##b", "##c", "##bc"}));
  EXPECT_EQ(train("abc abc xbc", 13).back(), "abc");
  EXPECT_EQ(train("abc abc xbc", 14).back(), "xbc");
}

TEST(WordPieceTrainer, EqualCountsByTheLowestIds) {
  const Tokens tokens = train("zy ba", 13);
  EXPECT_EQ(tokens, (Tokens{"a", "b", "y", "z", "##a", "##y", "ba", "zy"}));
}

TEST(WordPieceTrainer, WordsOfBertsTokenizer) {
  // Signs and ideographs are words, control characters and accents go, ill-formed bytes too.
  EXPECT_EQ(train("A-b\u65E5\u672C#\x01 \xFF", 11),
            (Tokens{"#", "-", "a", "b", "\u65E5", "\u672C"}));
  EXPECT_EQ(train("[MASK]", 15), (Tokens{"[", "]", "a", "k", "m", "s", "##a", "##k", "##s", "ma"}));
}

TEST(WordPieceTrainer, SizesItCannotMake) {
  EXPECT_EQ(error_of([] { train("abc", 9); }),
            "65 vocabulary of 9 tokens: the characters of the texts need at least 10");
  EXPECT_EQ(error_of([] { train("abc", 13); }),
            "65 vocabulary of 13 tokens: the texts give at most 12");
}

TEST(WordPieceTrainer, SeveralTrainersTogether) {
  WordPieceTrainer first(true), second(true), both(true);
  first.add("low lower");
  second.add("lowest new newer");
  for (const char* text : {"low lower", "lowest new newer"}) both.add(text);
  first.counts().merge(second.counts());
  EXPECT_EQ(first.train(30), both.train(30));
}

TEST(WordPieceTrainer, TheCheckpointRunsForEachToken) {
  WordPieceTrainer trainer(true);
  trainer.add("abc abd");
  int count = 0;
  trainer.train(14, [&] { ++count; });
  EXPECT_EQ(count, 14 - WordPieceTrainer::kMinimumVocabSize);
}

TEST(WordPieceTrainer, WritesWhatTheTokenizerReads) {
  Scratch scratch;
  const std::string folder = scratch.path("new/folder");
  WordPieceTrainer trainer(true);
  trainer.add("low lower lowest \u65E5");
  WordPieceFiles(folder, false).commit(trainer.train(24));
  const BertTokenizer tokenizer(BertTokenizer::kLowerCaseType, folder + "/vocab.txt", 0);
  EXPECT_EQ(tokenizer.vocab_size(), 26);  // with [BOS] and [EOS]
  EXPECT_EQ(tokenizer.special_ids().pad, 0);
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "Lowest \u65E5 low")), "lowest \u65E5 low");
  EXPECT_EQ(encode(tokenizer, "low").size(), 1U);
  EXPECT_EQ(error_of([&] { WordPieceFiles(folder, false); }).substr(0, 3), "73 ");
}

TEST(WordPieceTrainer, FilesWithoutCommitLeaveNothing) {
  Scratch scratch;
  { WordPieceFiles(scratch.path("new"), false); }
  EXPECT_EQ(scratch.entries(), 0U);
}

}  // namespace mt
