// Parquet files of pyarrow's (testdata/parquet) as lines of JSON.
#include "base/parquet/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/input/byte_source.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

const std::string kFolder = std::string(MT_TESTDATA) + "/parquet/";

std::string lines_of(const std::string& path, std::size_t piece = 1000) {
  ByteSource source(
      path, [] {}, 0, true);
  std::vector<char> bytes(piece);
  std::string lines;
  while (const std::size_t count = source.read(bytes)) lines.append(bytes.data(), count);
  EXPECT_EQ(source.stored_bytes(), std::ssize(read_file(path)));
  Hasher whole;
  whole.update(read_file(path));
  EXPECT_EQ(source.hash(), whole.hex());
  return lines;
}

TEST(Parquet, RowsAreLines) {
  for (const std::string name : {"plain", "snappy", "gzip", "zstd", "differences"})
    EXPECT_EQ(lines_of(kFolder + name + ".parquet"), read_file(kFolder + "rows.jsonl")) << name;
  for (const std::string name : {"types", "old", "empty"})
    EXPECT_EQ(lines_of(kFolder + name + ".parquet"), read_file(kFolder + name + ".jsonl")) << name;
}

TEST(Parquet, ComesInPieces) {
  EXPECT_EQ(lines_of(kFolder + "snappy.parquet", 3), read_file(kFolder + "rows.jsonl"));
}

TEST(Parquet, SaysWhatItIsPackedBy) {
  const std::string path = kFolder + "brotli.parquet";
  EXPECT_EQ(
      error_of([&] { lines_of(path); }),
      "65 " + path + ": a Parquet file packed by Brotli, expected Snappy, gzip, zstd or none");
}

TEST(Parquet, IsRefusedByWhoReadsText) {
  const std::string path = kFolder + "plain.parquet";
  EXPECT_EQ(error_of([&] { ByteSource(path, [] {}); }),
            "65 " + path +
                ": is a Parquet file, whose rows are lines of JSON; expected plain text, or text "
                "packed by gzip, bzip2 or zstd");
}

// A page's sum tells a byte of a text that has become another.
TEST(Parquet, SeesDamage) {
  const Scratch scratch;
  const std::string whole = read_file(kFolder + "plain.parquet"), path = scratch.path("damaged");
  const std::string value("\11\0\0\0assistant", 13);  // of a page, not of what is said of it
  const std::size_t at = whole.find(value);
  ASSERT_NE(at, whole.npos);
  std::string damaged = whole;
  damaged[at + 4] = 'b';
  File::create(path).write(damaged);
  EXPECT_EQ(error_of([&] { lines_of(path); }),
            "65 " + path + ": damaged Parquet: a page has not the sum that it says");
  File::create(path).write(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(error_of([&] { lines_of(path); }),
            "65 " + path + ": damaged Parquet: ends early: its last bytes are not PAR1");
}

}  // namespace
}  // namespace mt
