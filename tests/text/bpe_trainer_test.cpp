#include "text/training/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/text/gpt2_files.h"

namespace mt {

static std::vector<std::string> merges_of(const TrainedBpe& bpe) {
  std::vector<std::string> lines;
  for (const auto& [left, right] : bpe.merges)
    lines.push_back(to_byte_chars(bpe.tokens[left]) + " " + to_byte_chars(bpe.tokens[right]));
  return lines;
}

static TrainedBpe train(std::string_view text, int vocab_size) {
  BpeTrainer trainer;
  trainer.add(text);
  return trainer.train(vocab_size);
}

TEST(BpeTrainer, TheBytesComeInGpt2Order) {
  const TrainedBpe bpe = train("", 257);
  ASSERT_EQ(bpe.tokens.size(), 257u);
  EXPECT_EQ(bpe.tokens[0], "!");
  EXPECT_EQ(bpe.tokens[187], "\xFF");
  EXPECT_EQ(bpe.tokens[188], std::string(1, '\0'));
  EXPECT_EQ(bpe.tokens[198], "\n");
  EXPECT_EQ(bpe.tokens[220], " ");
  EXPECT_EQ(bpe.tokens[255], "\xAD");
  EXPECT_EQ(bpe.tokens[256], "<|endoftext|>");
  EXPECT_TRUE(bpe.merges.empty());
}

TEST(BpeTrainer, MostFrequentPairFirst) {
  // "a b" six times, then " ab" four times, then "ab c" and " ab c" once each.
  EXPECT_EQ(merges_of(train("ab ab ab ab1abc abc", 260)),
            (std::vector<std::string>{"a b", "\u0120 ab", "ab c"}));
}

TEST(BpeTrainer, EqualCountsByTheLowestIds) {
  EXPECT_EQ(merges_of(train("zy1ba1bc1ay", 261)),
            (std::vector<std::string>{"a y", "b a", "b c", "z y"}));
}

TEST(BpeTrainer, OverlappingOccurrences) {
  // "aaaa" holds three pairs "a a", one more than there are of "b b".
  const TrainedBpe bpe = train("aaaa bb bb", 260);
  EXPECT_EQ(merges_of(bpe), (std::vector<std::string>{"a a", "b b", "\u0120 bb"}));
}

TEST(BpeTrainer, ACheckpointThatThrowsEndsIt) {
  BpeTrainer trainer;
  trainer.add("ab ab ab");
  int merges = 0;
  const auto checkpoint = [&] {
    if (++merges == 2) fail(Exit::stopped, "now");
  };
  EXPECT_EQ(error_of([&] { trainer.train(259, checkpoint); }), "75 now");
}

TEST(BpeTrainer, PiecesAreNotJoined) {
  BpeTrainer trainer;
  trainer.add("a");
  trainer.add("b");
  trainer.add("a1b");
  EXPECT_EQ(error_of([&] { trainer.train(258); }),
            "65 vocabulary of 258 tokens: the texts give at most 257");
}

TEST(BpeTrainer, SizesItCannotMake) {
  EXPECT_EQ(error_of([] { train("abc", 256); }),
            "64 vocabulary of 256 tokens, expected at least 257");
  EXPECT_EQ(error_of([] { train("abc", 260); }),
            "65 vocabulary of 260 tokens: the texts give at most 259");
  EXPECT_EQ(train("abc", 259).tokens[257], "abc");
}

TEST(BpeTrainer, SeveralTrainersTogether) {
  BpeTrainer first, second, both;
  first.add("low lower");
  second.add("lowest new newer");
  for (const char* text : {"low lower", "lowest new newer"}) both.add(text);
  first.counts().merge(second.counts());
  EXPECT_EQ(merges_of(first.train(266)), merges_of(both.train(266)));
}

// Counting all pairs anew before each merge.
static std::vector<std::string> merges_by_definition(const std::map<std::string, int>& words,
                                                     const TrainedBpe& bytes, int count) {
  std::vector<std::string> tokens(bytes.tokens.begin(), bytes.tokens.begin() + 256);
  std::vector<std::pair<std::vector<std::size_t>, int>> split;
  for (const auto& [word, times] : words) {
    split.push_back({{}, times});
    for (const char byte : word)
      split.back().first.push_back(std::find(tokens.begin(), tokens.end(), std::string(1, byte)) -
                                   tokens.begin());
  }
  std::vector<std::string> lines;
  while (static_cast<int>(lines.size()) < count) {
    std::map<std::pair<std::size_t, std::size_t>, int> counts;
    for (const auto& [word, times] : split)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += times;
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;  // the first of equals: the lowest ids
        });
    if (best == counts.end()) break;
    const auto [left, right] = best->first;
    lines.push_back(to_byte_chars(tokens[left]) + " " + to_byte_chars(tokens[right]));
    tokens.push_back(tokens[left] + tokens[right]);
    for (auto& [word, times] : split) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] = tokens.size() - 1;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return lines;
}

TEST(BpeTrainer, EqualToTheDefinition) {
  std::mt19937 random(1);
  const TrainedBpe bytes = train("", 257);
  for (int round = 0; round < 200; ++round) {
    BpeTrainer trainer;
    std::map<std::string, int> words;
    for (unsigned n = 1 + random() % 12; n > 0; --n) {
      std::string word(1 + random() % 20, 'a');
      for (char& letter : word) letter = static_cast<char>('a' + random() % 3);
      trainer.add(word);
      ++words[word];
    }
    const auto expected = merges_by_definition(words, bytes, 25);
    const auto size = static_cast<std::int32_t>(257 + expected.size());
    ASSERT_EQ(merges_of(trainer.train(size)), expected) << "round " << round;
  }
}

TEST(BpeTrainer, WritesWhatTheTokenizerReads) {
  Scratch scratch;
  const std::string folder = scratch.path("new/folder");
  const std::string text = "low lower lowest \u00E9t\u00E9 \xFF";
  const TrainedBpe bpe = train(text, 265);
  BpeFiles(folder, false).commit(bpe);
  EXPECT_EQ(read_file(folder + "/merges.txt").substr(0, 18), "#version: 0.2\nl o\n");
  const Gpt2Bpe tokenizer(folder + "/vocab.json", folder + "/merges.txt");
  EXPECT_EQ(tokenizer.vocab_size(), 265);
  EXPECT_EQ(tokenizer.eod(), 264);
  EXPECT_EQ(encode(tokenizer, "low"), (std::vector<std::int32_t>{257}));
  for (std::int32_t id = 0; id < 265; ++id)
    EXPECT_EQ(tokenizer.decode({&id, 1}), bpe.tokens[static_cast<std::size_t>(id)]);
  EXPECT_EQ(error_of([&] { BpeFiles(folder, false); }).substr(0, 3), "73 ");
  BpeFiles(folder, true).commit(bpe);
}

TEST(BpeTrainer, FilesWithoutCommitLeaveNothing) {
  Scratch scratch;
  { BpeFiles(scratch.path("new"), false); }
  EXPECT_EQ(scratch.entries(), 0U);
  std::filesystem::create_directory(scratch.path("old"));
  { BpeFiles(scratch.path("old"), false); }
  EXPECT_EQ(scratch.entries(), 1U);
}

}  // namespace mt
