#include "search/vector_reader.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"

namespace mt {
namespace {

TEST(VectorReader, GivesAllRowsAndThenNone) {
  VectorReader golden(MT_TESTDATA "/search/vectors.npy", {});
  EXPECT_EQ(golden.columns(), 16);
  std::int64_t rows = 0;
  for (;;) {
    const std::vector<float> some = golden.read(77);
    if (some.empty()) break;
    EXPECT_EQ(some.size() % 16, 0u);
    rows += std::ssize(some) / 16;
  }
  EXPECT_EQ(rows, 200);
  EXPECT_TRUE(golden.read(1).empty());

  const Scratch folder;
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  write_file_atomically(folder.path("plain"), as_text(std::as_bytes(std::span(numbers))), false);
  VectorReader plain(folder.path("plain"), 2);
  EXPECT_EQ(plain.read(2), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(plain.read(2), (std::vector<float>{5, 6}));
  EXPECT_TRUE(plain.read(2).empty());
  write_file_atomically(folder.path("none"), "", false);
  EXPECT_TRUE(VectorReader(folder.path("none"), 2).read(5).empty());
}

TEST(VectorReader, WhatFollowsTheMatrixIsNotPassedOver) {
  const Scratch folder;
  const std::string one = read_file(MT_TESTDATA "/search/vectors.npy"), path = folder.path("two");
  write_file_atomically(path, one + one, false);
  VectorReader two(path, {});
  EXPECT_EQ(two.read(1000).size(), 200u * 16);
  EXPECT_EQ(error_of([&] { two.read(1000); }), "65 " + path + ": goes on behind its 200 vectors");
}

}  // namespace
}  // namespace mt
