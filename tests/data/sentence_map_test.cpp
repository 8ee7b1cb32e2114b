// Rows that Megatron-LM's helpers gave for small files of sentences, and what cannot be mapped.
#include "data/samples/sentence_map.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace mt {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;

// Three documents of sentences with 10 20 30, 5 6, 7 8 9 10 tokens, and titles of 2, 3, 1.
struct Sample {
  Scratch scratch;
  std::string prefix = scratch.path("sentences"), titles_prefix = scratch.path("titles");

  Sample() {
    write(prefix, {{10, 20, 30}, {5, 6}, {7, 8, 9, 10}});
    write(titles_prefix, {{2}, {3}, {1}});
  }
  static void write(const std::string& to,
                    const std::vector<std::vector<std::int32_t>>& documents) {
    IndexedDatasetWriter writer(to, TokenType::u16, {});
    for (const auto& lengths : documents) {
      std::size_t tokens = 0;
      for (const std::int32_t length : lengths) tokens += static_cast<std::size_t>(length);
      writer.add_document(std::vector<std::int32_t>(tokens, 1), lengths);
    }
    writer.finish();
    writer.commit({});
  }
  Rows map(SentenceMapOptions options) const {
    const IndexedDataset data(prefix);
    options.documents = {0, data.documents()};
    return rows(SentenceMap(data, options).rows(), 3);
  }
  Rows blocks(bool one_sentence) const {
    const IndexedDataset data(prefix), titles(titles_prefix);
    const BlockMapOptions options{
        .documents = {0, 3}, .max_length = 16, .one_sentence = one_sentence};
    return rows(BlockMap(data, titles, options).rows(), 4);
  }
  static Rows rows(const MapRows& map, std::size_t columns) {
    Rows all;
    for (std::int64_t k = 0; k < map.size(); ++k) {
      all.emplace_back();
      for (std::size_t c = 0; c < columns; ++c) all.back().push_back(map.at(k, c));
    }
    return all;
  }
};

TEST(SentenceMap, OneEpoch) {
  const Sample sample;
  EXPECT_EQ(sample.map({.max_length = 40, .min_sentences = 2}),
            (Rows{{5, 9, 40}, {3, 5, 40}, {0, 3, 40}}));
  EXPECT_EQ(sample.map({.max_length = 16, .min_sentences = 1, .short_seq_prob = 0}),
            (Rows{{5, 9, 16}, {3, 5, 16}, {0, 3, 16}}));
  EXPECT_EQ(sample.map({.max_length = 16, .min_sentences = 1, .short_seq_prob = 0.5}),
            (Rows{{5, 7, 13}, {0, 3, 16}, {3, 5, 8}, {7, 9, 6}}));
}

TEST(SentenceMap, AsManyEpochsAsSamplesNeed) {
  const Sample sample;
  EXPECT_EQ(
      sample.map({.max_length = 40, .min_sentences = 2, .short_seq_prob = 0.5, .num_samples = 12}),
      (Rows{{0, 3, 26},
            {7, 9, 26},
            {3, 5, 26},
            {0, 3, 40},
            {5, 7, 2},
            {0, 3, 36},
            {3, 5, 40},
            {7, 9, 40},
            {5, 7, 11},
            {3, 5, 40},
            {5, 9, 40},
            {5, 9, 40},
            {0, 3, 17},
            {3, 5, 8}}));
}

TEST(SentenceMap, Blocks) {
  const Sample sample;
  EXPECT_EQ(sample.blocks(false), (Rows{{5, 7, 2, 2}, {0, 3, 0, 0}, {3, 5, 1, 1}, {7, 9, 2, 3}}));
  EXPECT_EQ(sample.blocks(true),
            (Rows{{2, 3, 0, 1}, {0, 2, 0, 0}, {3, 5, 1, 2}, {7, 9, 2, 4}, {5, 7, 2, 3}}));
}

TEST(SentenceMap, LongSentencesLeaveTheirDocumentOut) {
  Sample sample;
  sample.prefix = sample.scratch.path("long");
  Sample::write(sample.prefix, {{10, 513}, {513}, {}, {512, 512}});
  EXPECT_EQ(sample.map({.max_length = 16, .min_sentences = 1, .short_seq_prob = 0}),
            (Rows{{2, 3, 16}, {3, 5, 16}}));
}

TEST(SentenceMap, IsTheSameFromACache) {
  const Sample sample;
  const IndexedDataset data(sample.prefix);
  const IndexCache cache(sample.scratch.path("cache"), Log());
  const SentenceMapOptions options{.documents = {0, 3}, .max_length = 40, .num_samples = 9};
  const Rows made = sample.map(options);
  const SentenceMap first(data, options, cache), second(data, options, cache);
  EXPECT_TRUE(first.rows().made());
  EXPECT_FALSE(second.rows().made());
  EXPECT_EQ(Sample::rows(first.rows(), 3), made);
  EXPECT_EQ(Sample::rows(second.rows(), 3), made);
  SentenceMapOptions other = options;
  other.short_seq_prob = 0.2;
  EXPECT_TRUE(SentenceMap(data, other, cache).rows().made());
}

TEST(SentenceMap, WhatGivesNoSampleIsAnError) {
  Sample sample;
  sample.prefix = sample.scratch.path("none");
  Sample::write(sample.prefix, {{513, 1}, {}, {4}});
  EXPECT_EQ(error_of([&] { sample.map({.max_length = 9, .min_sentences = 2, .num_samples = 1}); }),
            "65 " + sample.prefix +
                ": documents 0 to 3: none gives a sample; expected documents of "
                "enough sentences, none longer than 512 tokens");
  EXPECT_EQ(error_of([&] { sample.map({.max_length = 1}); }),
            "64 samples of 1 tokens between special ones, expected 2 or more; see --seq-length");
  const Sample titled;
  const IndexedDataset data(titled.prefix);

  Sample::write(titled.scratch.path("few"), {{2}, {3}});
  const IndexedDataset two(titled.scratch.path("few"));
  EXPECT_EQ(error_of([&] {
              BlockMap(data, two, {.documents = {0, 3}, .max_length = 16});
            }),
            "65 " + titled.scratch.path("few") +
                ": 2 titles, expected 3, one for each document of " + titled.prefix);
}

}  // namespace
}  // namespace mt
