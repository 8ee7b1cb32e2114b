#include "retro/stage_blocks.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"

namespace mt {
namespace {

using Blocks = StageBlocks<float>;

std::vector<float> rows(ItemRange items) {
  std::vector<float> rows;
  for (std::int64_t i = items.begin; i < items.end; ++i)
    rows.insert(rows.end(), {static_cast<float>(i), static_cast<float>(i) / 2});
  return rows;
}

// Makes a share of the blocks of 25 items, 10 in each.
StageCounts make(const std::string& folder, const StageShare& share = {},
                 const std::string& made_of = "a", bool force = false) {
  StageFiles files(folder, force, share);
  Blocks blocks(files, {"part", "data", 25, 10, 2, made_of});
  const RunContext context;
  Progress progress(context.log, "making", "rows", 25);
  StageCounts counts;
  blocks.make(share, context, progress, counts, rows);
  return counts;
}

std::vector<float> read(const std::string& folder, double share) {
  StageFiles files(folder, false);
  std::vector<float> found;
  Blocks(files, {"part", "data", 25, 10, 2, "a"})
      .read(share, {}, [&](const std::vector<float>& some, std::int64_t first) {
        EXPECT_EQ(some.front(), static_cast<float>(first));
        found.insert(found.end(), some.begin(), some.end());
      });
  return found;
}

std::int64_t compare(const std::string& folder, std::int64_t every, const StageRows<float>& now) {
  const RunContext context;
  Progress progress(context.log, "comparing", "rows", 25);
  return compare_blocks<float>(folder, {"part", "data", 25, 10, 2, "a"}, every, context, progress,
                               now);
}

TEST(StageBlocks, SharesMakeWhatOneProcessMakes) {
  const Scratch folder;
  const StageCounts first = make(folder.path("a"), {1, 2});
  EXPECT_EQ(first.made, 1);
  EXPECT_EQ(first.left, 2);
  const StageCounts rest = make(folder.path("a"));
  EXPECT_EQ(rest.made, 2);
  EXPECT_EQ(rest.found, 1);
  EXPECT_EQ(rest.left, 0);
  make(folder.path("b"));
  for (const char* file : {"/part/000-010.hdf5", "/part/010-020.hdf5", "/part/020-025.hdf5"})
    EXPECT_EQ(read_file(folder.path("a") + file), read_file(folder.path("b") + file)) << file;
  EXPECT_EQ(read(folder.path("a"), 1), rows({0, 25}));
  EXPECT_EQ(read(folder.path("a"), 0.5).size(), 2u * (5 + 5 + 2));
}

TEST(StageBlocks, WhatIsLostOrDamagedIsMadeAnewAndOtherContentRefused) {
  const Scratch folder;
  const std::string path = folder.path("a"), second = path + "/part/010-020.hdf5";
  make(path);
  const std::string bytes = read_file(second);
  std::filesystem::remove(second);
  EXPECT_EQ(make(path).made, 1);
  write_file_atomically(second, bytes.substr(0, 99), true);
  EXPECT_EQ(make(path).made, 1);
  EXPECT_EQ(read_file(second), bytes);
  EXPECT_EQ(error_of([&] { make(path, {}, "b"); }).substr(0, 3), "78 ");
  EXPECT_EQ(make(path, {}, "b", true).made, 3);
  EXPECT_EQ(make(path, {}, "a").found, 3);  // the same bytes are what was made of either
  EXPECT_EQ(make(path, {}, "b").found, 3);
}

TEST(StageBlocks, ComparesWhatIsThereToWhatIsMadeNow) {
  const Scratch folder;
  const std::string path = folder.path("a");
  make(path);
  EXPECT_EQ(compare(path, 1, rows), 3);
  EXPECT_EQ(compare(path, 2, rows), 2);
  EXPECT_EQ(error_of([&] {
              compare(path, 2, [](ItemRange items) {
                std::vector<float> now = rows(items);
                if (items.begin == 20) now[3] += 1;
                return now;
              });
            }),
            "1 " + path + "/part/020-025.hdf5: data: row 1: has 10.5, and 11.5 is made now");
}

TEST(StageBlocks, NobodyMakesAllWhileAShareIsMade) {
  const Scratch folder;
  const std::string path = folder.path("a");
  {
    const StageFiles share(path, false, {1, 2});
    EXPECT_EQ(error_of([&] { StageFiles(path, false); }).substr(0, 3), "73 ");
    const StageFiles other(path, false, {0, 2});
  }
  EXPECT_EQ(make(path).made, 3);
}

}  // namespace
}  // namespace mt
