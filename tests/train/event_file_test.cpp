// TensorBoard's event files; scripts/compare-tensorboard.py reads whole ones with TensorBoard.
#include "train/report/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/base/scratch.h"

namespace mt {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// RFC 3720, B.4, and "123456789".
TEST(EventFile, Crc32c) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

// Bytes of tensorboard 2.21's own writer: RecordWriter over Event protobufs.
TEST(EventFile, Records) {
  EXPECT_EQ(
      version_record(1700000000.5),
      from_hex("1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110"));
  EXPECT_EQ(
      scalar_record(1700000001.25, 300, "lm loss", 2.5F),
      from_hex("1e00000000000000d9dc12320900005040fc54d94110ac022a100a0e0a076c6d206c6f7373150000"
               "204091a76c0e"));
  EXPECT_EQ(
      scalar_record(1700000002, 5000000000, "grad-norm vs samples", NAN),
      from_hex("2e00000000000000c5cb57fa0900008040fc54d9411080e497d0122a1d0a1b0a14677261642d6e6f"
               "726d2076732073616d706c6573150000c07fc6662460"));
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path().string());
  return paths;
}

// A full queue is written, and what is left of it at the end.
TEST(EventFile, WritesInParts) {
  const Scratch scratch;
  const std::string folder = scratch.path("new/folder");
  const std::size_t first = version_record(0).size(), each = scalar_record(0, 1, "x", 1).size();
  {
    EventFile events(folder, 2);
    ASSERT_EQ(files_in(folder).size(), 1U);
    const auto size = [&] { return std::filesystem::file_size(files_in(folder)[0]); };
    EXPECT_EQ(size(), first);
    events.scalar("x", 1, 1);
    EXPECT_EQ(size(), first);
    events.scalar("x", 2, 2);
    EXPECT_EQ(size(), first + 2 * each);
    events.scalar("x", 3, 3);
    events.flush();
    EXPECT_EQ(size(), first + 3 * each);
    events.scalar("x", 4, 4);
  }
  EXPECT_EQ(std::filesystem::file_size(files_in(folder)[0]), first + 4 * each);
  const EventFile another(folder, 1);
  EXPECT_EQ(files_in(folder).size(), 2U);
}

TEST(EventFile, ThatCannotBeMade) {
  const Scratch scratch;
  write_file_atomically(scratch.path("file"), "", false);
  EXPECT_EQ(error_of([&] { EventFile(scratch.path("file"), 1); }),
            concat("73 ", scratch.path("file"), ": is a file, expected a folder or nothing"));
}

}  // namespace
}  // namespace mt
