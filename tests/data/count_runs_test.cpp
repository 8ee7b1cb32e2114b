#include "data/corpus/count_runs.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/base/scratch.h"

namespace mt {

using Counted = std::map<std::string, std::int64_t>;

static Counted words_of(const PieceCounts& counts) { return {counts.begin(), counts.end()}; }

// What is left of words that three threads count, which write a run after every `per_run` words.
struct Taken {
  Counted words;
  CountRuns::Choice choice;
};
static Taken take(const std::vector<std::string>& words, std::size_t per_run, std::size_t memory) {
  Scratch scratch;
  CountRuns runs(scratch.path("words"));
  std::vector<PieceCounts> counts(3);
  for (std::size_t i = 0; i < words.size(); ++i) {
    counts[i % 3].add(words[i]);
    if (counts[i % 3].size() == per_run) runs.write(counts[i % 3]);
  }
  EXPECT_EQ(runs.empty(), per_run > words.size());
  PieceCounts all;
  const auto choice =
      runs.take({&counts[0], &counts[1], &counts[2]}, {.word = 10, .byte = 1}, memory, all);
  for (const PieceCounts& some : counts) EXPECT_TRUE(some.empty());
  return {words_of(all), choice};
}

// Some are frequent, one is long, and one has any bytes.
static std::vector<std::string> some_words() {
  std::mt19937 random(1);
  std::vector<std::string> words(3, std::string(100000, 'x'));
  words.insert(words.end(), 5, std::string("\0\xFF\n", 3));
  for (int i = 0; i < 30000; ++i)
    words.push_back(std::to_string(std::min(random() % 3000, random() % 3000)));
  return words;
}

TEST(CountRuns, AllWordsThatFit) {
  const std::vector<std::string> words = some_words();
  Counted expected;
  for (const std::string& word : words) ++expected[word];
  for (const std::size_t per_run : {7, 400, 100000}) {
    const Taken taken = take(words, per_run, 1 << 20);
    EXPECT_EQ(taken.words, expected) << per_run;
    EXPECT_EQ(taken.choice.left_out, 0);
    EXPECT_EQ(taken.choice.whole_from, 1);
  }
}

TEST(CountRuns, TheMostFrequentOnesWhereMemoryIsSmall) {
  const std::vector<std::string> words = some_words();
  Counted all;
  for (const std::string& word : words) ++all[word];
  const auto cost = [](const Counted& some) {
    std::size_t sum = 0;
    for (const auto& [word, count] : some) sum += 10 + word.size();
    return sum;
  };
  for (const std::size_t memory : {0, 500, 5000, 20000, 30000}) {
    const Taken taken = take(words, 100000, memory);
    const std::int64_t whole_from = taken.choice.whole_from;
    Counted partly;  // occur once less than those that are all there
    for (const auto& [word, count] : all) {
      if (count == whole_from - 1)
        partly.emplace(word, count);
      else
        EXPECT_EQ(taken.words.contains(word), count >= whole_from) << word;
    }
    const std::size_t sum = cost(taken.words);
    EXPECT_LE(sum, memory + memory / 20 + 20);
    EXPECT_GT(sum + cost(partly), memory) << "all of them would have fitted";
    EXPECT_GE(sum + memory / 20 + 20, memory) << "more would have fitted";
    EXPECT_EQ(taken.choice.left_out, static_cast<std::int64_t>(all.size() - taken.words.size()));
    for (const std::size_t per_run : {7, 400}) {
      const Taken again = take(words, per_run, memory);
      EXPECT_EQ(again.words, taken.words) << memory;
      EXPECT_EQ(again.choice.left_out, taken.choice.left_out);
    }
  }
}

TEST(CountRuns, NothingRemains) {
  Scratch scratch;
  {
    CountRuns runs(scratch.path("words"));
    PieceCounts counts;
    counts.add("a");
    runs.write(counts);
    EXPECT_FALSE(scratch.entries() == 0);
  }
  EXPECT_TRUE(scratch.entries() == 0);
}

TEST(CountRuns, NoThreadCountedAnything) {
  PieceCounts all;
  EXPECT_EQ(CountRuns("words").take({}, {1, 1}, 0, all).left_out, 0);
  EXPECT_TRUE(all.empty());
}

}  // namespace mt
