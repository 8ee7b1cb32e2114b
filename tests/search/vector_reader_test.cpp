#include "search/vector_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/base/scratch.h"

namespace mt {
namespace {

std::vector<float> read(VectorReader& reader, std::int64_t most) {
  std::vector<float> numbers(static_cast<std::size_t>(most * reader.columns()));
  numbers.resize(static_cast<std::size_t>(reader.read(numbers) * reader.columns()));
  return numbers;
}

TEST(VectorReader, GivesAllRowsAndThenNone) {
  VectorReader golden(MT_TESTDATA "/search/vectors.npy", {});
  EXPECT_EQ(golden.columns(), 16);
  std::int64_t rows = 0;
  for (;;) {
    EXPECT_EQ(golden.rows_left(), 200 - rows);
    const std::vector<float> some = read(golden, 77);
    if (some.empty()) break;
    EXPECT_EQ(some.size() % 16, 0u);
    rows += std::ssize(some) / 16;
  }
  EXPECT_EQ(rows, 200);
  EXPECT_TRUE(read(golden, 1).empty());

  const Scratch folder;
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  write_file_atomically(folder.path("plain"), as_text(std::as_bytes(std::span(numbers))), false);
  VectorReader plain(folder.path("plain"), 2);
  EXPECT_EQ(read(plain, 2), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(read(plain, 2), (std::vector<float>{5, 6}));
  EXPECT_TRUE(read(plain, 2).empty());
  write_file_atomically(folder.path("none"), "", false);
  VectorReader none(folder.path("none"), 2);
  EXPECT_TRUE(read(none, 5).empty());
}

TEST(VectorReader, LinesOfJson) {
  const Scratch folder;
  const std::string path = folder.path("lines");
  const auto lines = [&](const std::string& text, std::optional<std::int64_t> columns = {}) {
    write_file_atomically(path, text, true);
    return VectorReader(path, columns);
  };
  VectorReader some = lines("{\"item\":0,\"embedding\":[1,-2.5]}\n{\"embedding\":[3e0,4]}", 2);
  EXPECT_EQ(some.columns(), 2);
  EXPECT_EQ(read(some, 1), (std::vector<float>{1, -2.5}));
  EXPECT_EQ(read(some, 5), (std::vector<float>{3, 4}));
  EXPECT_TRUE(read(some, 5).empty());
  for (const std::string begin : {"{\"i\": 0, ", "{ \"id2\":7,", "{\"n\":[0],"}) {
    VectorReader one = lines(begin + "\"embedding\": [5, 6]}\n");
    EXPECT_EQ(read(one, 5), (std::vector<float>{5, 6})) << begin;
  }
  const std::string first = "{\"embedding\":[1,2]}\n";
  for (const auto& [text, wrong] : std::vector<std::pair<std::string, std::string>>{
           {"{\"embedding\":[1]}\n", "1 columns, expected 2"},
           {first + "{\"embedding\":[1]}\n", ":2: an embedding of 1 numbers, expected 2"},
           {first + "{\"embedding\":[1,1e39]}\n", ":2: number 1 of its embedding"},
           {first + "{\"embedding\":[1,\"2\"]}\n", ":2: number 1 of its embedding"},
           {first + "{\"embedding\":[1,NaN]}\n", ":2: "},
           {first + "{\"embedding\":[1,2]\n", ":2: "},
           {first + "\n", ":2: "},
           {first + "[1,2]\n", ":2: expected an object"},
           {"{\"embedding\":[]}\n", ":1: its embedding has no numbers"},
           {"{\"embed\":[1,2]}\n", ":1: expected an object"}}) {
    try {
      VectorReader reader = lines(text, 2);
      read(reader, 5);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_data);
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
}

TEST(VectorReader, WhatFollowsTheMatrixIsNotPassedOver) {
  const Scratch folder;
  const std::string one = read_file(MT_TESTDATA "/search/vectors.npy"), path = folder.path("two");
  write_file_atomically(path, one + one, false);
  VectorReader two(path, {});
  EXPECT_EQ(read(two, 1000).size(), 200u * 16);
  EXPECT_EQ(error_of([&] { read(two, 1000); }), "65 " + path + ": goes on behind its 200 vectors");
}

TEST(VectorReader, NamesTheFirstThatIsNoNumber) {
  const Scratch folder;
  std::vector<float> numbers(3 << 20, 1);  // more than one thread's
  numbers[(2 << 20) + 5] = -INFINITY;
  numbers.back() = NAN;
  write_file_atomically(folder.path("plain"), as_text(std::as_bytes(std::span(numbers))), false);
  VectorReader plain(folder.path("plain"), 8);
  EXPECT_EQ(error_of([&] { plain.read(numbers); }),
            "65 " + folder.path("plain") + ": vector 262144: column 5 is no finite number");
}

// The same rows, and the same complaints.
TEST(VectorReader, TakesRowsFromAMapping) {
  const Scratch folder;
  const std::string one = read_file(MT_TESTDATA "/search/vectors.npy"), path = folder.path("some");
  const auto mapped = [&](std::string_view content) {
    write_file_atomically(path, content, true);
    const MappedFile file(path);
    VectorReader reader(path, {});
    EXPECT_TRUE(reader.can_be_mapped());
    std::vector<float> all;
    for (auto some = reader.next_of(file, 77); !some.empty(); some = reader.next_of(file, 77))
      all.insert(all.end(), some.begin(), some.end());
    return all;
  };
  VectorReader golden(MT_TESTDATA "/search/vectors.npy", {});
  EXPECT_EQ(mapped(one), read(golden, 1000));
  EXPECT_EQ(error_of([&] { mapped(one + one); }),
            "65 " + path + ": goes on behind its 200 vectors");
  for (const std::size_t size : {one.size() - 1, one.size() - 64})
    EXPECT_EQ(error_of([&] { mapped(std::string_view(one).substr(0, size)); }),
              "65 " + path + ": ends in vector 199 of 16 columns");
  std::string wrong = one;
  wrong.replace(wrong.size() - 60, 4, std::string("\0\0\300\177", 4));
  EXPECT_EQ(error_of([&] { mapped(wrong); }),
            "65 " + path + ": vector 199: column 1 is no finite number");
}

}  // namespace
}  // namespace mt
