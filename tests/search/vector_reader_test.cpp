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

}  // namespace
}  // namespace mt
