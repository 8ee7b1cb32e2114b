// Files of Weights & Biases; scripts/compare-wandb.py has the client itself read whole ones.
#include "train/report/wandb_run.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>

#include "tests/base/scratch.h"
#include "text/sentencepiece/protobuf_reader.h"

namespace mt {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::uint64_t number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  return value;
}

// The records of a file, as the format says.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  EXPECT_EQ(file.substr(0, 7), WandbLog::header());
  bool goes_on = false;
  for (std::size_t at = 7; at < file.size();) {
    const std::size_t left = 32768 - at % 32768;
    if (left < 7) {
      EXPECT_EQ(file.substr(at, left), std::string(left, '\0'));
      at += left;
      continue;
    }
    const std::size_t size = number(file.substr(at + 4, 2));
    EXPECT_LE(7 + size, left);
    const std::string framed = file.substr(at + 6, 1 + size);
    EXPECT_EQ(framed.size(), 1 + size);
    EXPECT_EQ(number(file.substr(at, 4)),
              ::crc32_z(0, reinterpret_cast<const Bytef*>(framed.data()), framed.size()));
    const int kind = framed[0];
    EXPECT_EQ(goes_on, kind == 3 || kind == 4);
    if (!goes_on) records.emplace_back();
    records.back() += framed.substr(1);
    goes_on = kind == 2 || kind == 3;
    at += 7 + size;
  }
  EXPECT_FALSE(goes_on);
  return records;
}

// The first record, which is short, of a file of wandb 0.31.0.
TEST(WandbLog, AsTheClientWritesIt) {
  const std::string data = from_hex(
      "0801c20c0a0a0867346262386c6f67aa013b0a390a2f302e33312e302b3135663863626335383164316335636663"
      "36"
      "653331663638623438626464313363656332646432631206302e37302e30");
  WandbLog log;
  EXPECT_EQ(WandbLog::header(), from_hex("3a572642e1be00"));
  EXPECT_EQ(log.record(data), from_hex("7152ce6a4d0001") + data);
}

TEST(WandbLog, BlocksAreFilled) {
  for (const std::size_t first : {0, 1, 32740, 32741, 32742, 32747, 32748, 32754, 32755, 100000}) {
    WandbLog log;
    std::string file = WandbLog::header();
    const std::vector<std::string> records{std::string(first, 'a'), "b", std::string(70000, 'c'),
                                           "d"};
    for (const std::string& record : records) file += log.record(record);
    EXPECT_EQ(records_of(file), records) << first;
  }
}

struct Item {
  std::string name, json;
  bool operator==(const Item&) const = default;
};

// The items of a history record, without those of time, and its step.
std::vector<Item> items_of(std::string_view record, std::uint64_t& step) {
  std::vector<Item> items;
  const std::string where = "record";
  ProtobufReader reader(record, where);
  while (reader.next()) {
    if (reader.number() != 2) continue;
    ProtobufReader history = reader.message();
    while (history.next()) {
      ProtobufReader item = history.message();
      if (history.number() == 2) {
        while (item.next()) step = item.integer();
        continue;
      }
      Item& one = items.emplace_back();
      while (item.next()) (item.number() == 2 ? one.name : one.json) = item.bytes();
      if (one.name == "_runtime" || one.name == "_timestamp") items.pop_back();
    }
  }
  return items;
}

TEST(WandbRun, RowsOfSteps) {
  const Scratch scratch;
  WandbRun run(scratch.path("new"), {.project = "p", .name = "n", .entity = {}},
               R"({"hidden-size":{"value":16,"origin":"default"}})");
  EXPECT_NE(run.path().find("/new/wandb/offline-run-"), std::string::npos);
  run.scalar("lm loss", 4.5, 2);
  run.scalar("grad-norm", NAN, 2);
  run.scalar("lm loss", 4.25, 2);
  run.scalar("lm loss", -INFINITY, 4);
  run.end();
  const std::vector<std::string> records = records_of(read_file(run.path()));
  ASSERT_EQ(records.size(), 7U);  // header, run, twice a history and a summary, exit
  EXPECT_NE(records[1].find("hidden_size"), std::string::npos);
  std::uint64_t step = 0;
  EXPECT_EQ(items_of(records[2], step),
            (std::vector<Item>{{"lm loss", "4.25"}, {"grad-norm", "\"NaN\""}, {"_step", "2"}}));
  EXPECT_EQ(step, 2U);
  EXPECT_EQ(items_of(records[4], step),
            (std::vector<Item>{{"lm loss", "\"-Infinity\""}, {"_step", "4"}}));
  EXPECT_EQ(step, 4U);
}

TEST(WandbRun, ThatCannotBeMade) {
  const Scratch scratch;
  write_file_atomically(scratch.path("file"), "", false);
  EXPECT_EQ(error_of([&] { WandbRun(scratch.path("file"), {}, "{}"); }).substr(0, 3), "73 ");
}

}  // namespace
}  // namespace mt
