#include "data/samples/index_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "data/samples/gpt_index.h"
#include "tests/data/support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::uint32_t>;

Log quiet() { return Log({.level = Log::Level::quiet, .descriptor = -1}); }

// Two arrays, and how often they were made.
struct Sample {
  int made = 0;
  std::string text = "squares and bytes";
  Words squares = Words(1000);
  std::vector<std::uint8_t> bytes = {1, 2, 3};

  Sample() {
    for (std::uint32_t i = 0; i < 1000; ++i) squares[i] = i * i;
  }
  IndexContent content() {
    return {text, {{4, std::ssize(squares)}, {1, std::ssize(bytes)}}, [this](IndexWriter& writer) {
              ++made;
              for (const std::uint32_t square : squares) writer.put(square);
              writer.next_array();
              writer.put_all(std::span<const std::uint8_t>(bytes));
            }};
  }
  void expect(const IndexArrays& arrays) const {
    EXPECT_TRUE(std::ranges::equal(arrays.get<std::uint32_t>(0), squares));
    EXPECT_TRUE(std::ranges::equal(arrays.get<std::uint8_t>(1), bytes));
  }
};

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::ranges::count_if(
      fs::directory_iterator(folder),
      [](const fs::directory_entry& entry) { return entry.path().extension() == ".index"; }));
}

TEST(IndexCache, WithoutAFolderEachIsMadeInMemory) {
  Sample sample;
  const IndexCache none;
  EXPECT_FALSE(none.kept());
  sample.expect(none.get(sample.content()));
  sample.expect(none.get(sample.content()));
  EXPECT_EQ(sample.made, 2);
}

TEST(IndexCache, IsMadeOnceAndMappedThen) {
  const Scratch scratch;
  Sample sample;
  const std::string folder = scratch.path("a/b");
  sample.expect(IndexCache(folder, quiet()).get(sample.content()));
  EXPECT_EQ(sample.made, 1);
  const IndexCache again(folder, quiet());
  const IndexArrays arrays = again.get(sample.content());
  sample.expect(arrays);
  EXPECT_EQ(sample.made, 1);
  EXPECT_EQ(files_in(folder), 1U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrays.get<std::uint32_t>(0).data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrays.get<std::uint8_t>(1).data()) % 64, 0U);
  sample.text = "others";
  again.get(sample.content());
  EXPECT_EQ(sample.made, 2);
  EXPECT_EQ(files_in(folder), 2U);
}

// A file is written once more, whichever byte is changed or the first to be cut off.
TEST(IndexCache, DamagedFilesAreMadeAgain) {
  const Scratch scratch;
  Sample sample;
  sample.squares.resize(8);
  const IndexCache cache(scratch.path("cache"), quiet());
  cache.get(sample.content());
  const std::string path = cache.path(sample.text), whole = read_file(path);
  for (std::size_t i = 0; i < whole.size(); i += 7)
    for (const bool cut : {false, true}) {
      std::string damaged = cut ? whole.substr(0, i) : whole;
      if (!cut) damaged[i] = static_cast<char>(damaged[i] ^ 4);
      write_file_atomically(path, damaged, true);
      sample.made = 0;
      sample.expect(cache.get(sample.content()));
      EXPECT_EQ(sample.made, 1) << "byte " << i << (cut ? " cut" : " changed");
      EXPECT_EQ(read_file(path), whole);
    }
}

TEST(IndexCache, AFileOfOtherDataIsRefused) {
  const Scratch scratch;
  Sample sample, other;
  other.text = "cubes and bytes";
  const IndexCache cache(scratch.path("cache"), quiet());
  cache.get(other.content());
  fs::rename(cache.path(other.text), cache.path(sample.text));
  EXPECT_EQ(error_of([&] { cache.get(sample.content()); }),
            concat("78 ", cache.path(sample.text),
                   ": is the index of other data: cubes and bytes; expected squares and bytes"));
}

TEST(IndexCache, AFolderThatCannotBeMadeIsAnError) {
  const Scratch scratch;
  write_file_atomically(scratch.path("file"), "", false);
  Sample sample;
  EXPECT_EQ(code_of([&] { IndexCache(scratch.path("file"), quiet()).get(sample.content()); }),
            Exit::cannot_create);
}

TEST(IndexCache, ManyThreadsMayMakeTheSame) {
  const Scratch scratch;
  const IndexCache cache(scratch.path("cache"), quiet());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      Sample sample;
      for (int k = 0; k < 20; ++k) sample.expect(cache.get(sample.content()));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files_in(scratch.path("cache")), 1U);
}

Documents documents_of(std::int32_t count, std::int32_t length) {
  return Documents(static_cast<std::size_t>(count),
                   std::vector<std::int32_t>(static_cast<std::size_t>(length), 7));
}

// Each thing that changes the arrays changes the file's name; more samples of the same epochs do
// not.
TEST(IndexCache, GptIndexesAreNeverStale) {
  const Scratch scratch;
  write_documents(scratch.path("a"), TokenType::u16, documents_of(20, 10));
  write_documents(scratch.path("b"), TokenType::u16, documents_of(20, 11));
  write_documents(scratch.path("c"), TokenType::u16, documents_of(20, 10));
  const IndexedDataset a(scratch.path("a")), b(scratch.path("b")), c(scratch.path("c"));
  const IndexCache cache(scratch.path("cache"), quiet());
  const GptIndexOptions first{.sequences = {0, 18}, .seq_length = 4, .num_samples = 30};
  const auto files_after = [&](const IndexedDataset& data, auto change) {
    GptIndexOptions options = first;
    change(options);
    const GptIndex kept(data, options, cache), made(data, options);
    EXPECT_TRUE(std::ranges::equal(kept.document_index(), made.document_index()));
    for (std::int64_t k = 0; k < made.size(); ++k) {
      EXPECT_EQ(kept.shuffled(k), made.shuffled(k));
      EXPECT_EQ(kept.sample(k), made.sample(k));
    }
    return files_in(scratch.path("cache"));
  };
  EXPECT_EQ(files_after(a, [](auto&) {}), 1U);
  EXPECT_EQ(files_after(a, [](auto&) {}), 1U);
  EXPECT_EQ(files_after(c, [](auto&) {}), 1U) << "the same lengths are cut into the same samples";
  EXPECT_EQ(files_after(a, [](auto& o) { o.num_samples = 44; }), 1U) << "still one epoch";
  EXPECT_EQ(files_after(b, [](auto&) {}), 2U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.seed = 5; }), 3U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.seq_length = 5; }), 4U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.sequences = {1, 18}; }), 5U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.sequences = {0, 19}; }), 6U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.num_samples = 50; }), 7U)
      << "two epochs, the last apart";
  EXPECT_EQ(files_after(a, [](auto& o) { o.num_samples = 88; }), 8U) << "two epochs together";
  EXPECT_EQ(files_after(a, [](auto& o) { o.extra_token = false; }), 9U);
  EXPECT_EQ(files_after(a, [](auto& o) { o.drop_last_partial = false; }), 10U);
}

TEST(IndexCache, WhatThereIsNoMemoryForIsToldBeforeItIsTaken) {
  const Scratch scratch;
  write_documents(scratch.path("a"), TokenType::u16, documents_of(1000, 1));
  const IndexedDataset a(scratch.path("a"));
  const GptIndexOptions options{
      .sequences = {0, 1000}, .seq_length = 1000000, .num_samples = 2000000};
  const IndexCache cache(scratch.path("cache"), quiet());
  const std::string of_order = error_of([&] { GptIndex(a, options, cache); });
  EXPECT_TRUE(of_order.starts_with(
      concat("71 ", a.name(),
             ": the order of 2000000 samples in 2000000001 epochs needs at least "
             "16000008008000 bytes of memory, of which ")))
      << of_order;
  const std::string of_arrays = error_of([&] { GptIndex(a, options); });
  EXPECT_TRUE(of_arrays.starts_with(
      "71 an index of samples that no --data-cache-path keeps needs at least "))
      << of_arrays;
}

}  // namespace
}  // namespace mt
