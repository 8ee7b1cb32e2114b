// WandbRun: a run in a file as Weights & Biases' own client writes it without a connection;
// `wandb sync` of its folder sends it.  Nothing is sent from here.
//
// DIR/wandb/offline-run-DATE_TIME-ID/run-ID.wandb is a log in LevelDB's form, little endian, behind
// ":W&B", u16 0xBEE1 and u8 0.  In blocks of 32 KiB, the first of which has these 7 bytes, are
// parts of records; fewer than 7 bytes that are left of a block are zero:
//   u32 CRC-32 of kind and data   u16 length   u8 kind: 1 whole, 2 first, 3 middle, 4 last   data
// Each record is a protobuf of wandb_internal.Record (wandb/proto/wandb_internal.proto):
//   1 num: from 1 on
//   2 history { 1 item { 2 nested_key, 16 value_json }…   2 step { 1 num } }
//   3 summary { 1 update { 2 nested_key, 16 value_json }… }: what a run came to so far
//   17 run { 1 run_id   2 entity   3 project   4 config { 1 update { 1 key, 16 value_json }… }
//            8 display_name   13 host   17 start_time { 1 seconds, 2 nanos } }
//   18 exit { 1 exit_code, 2 runtime }   21 header { 1 version_info { 1 producer } }
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace mt {

class ProtobufWriter;

// Records behind one another in that form.
class WandbLog {
 public:
  static std::string header();
  // The bytes of a record that comes next.
  std::string record(std::string_view data);

 private:
  std::size_t at_ = header().size();  // of the block
};

class WandbRun {
 public:
  struct Names {
    std::string project, name, entity = {};
  };
  // Makes the folder in `folder` and begins the file.  options_json: of --print-config=json, which
  // become the run's config, with `_` where they have `-`, as Megatron-LM's.  Errors:
  // Exit::cannot_create, io_error.
  WandbRun(const std::string& folder, const Names& names, const std::string& options_json);

  // Points of a step are one row, which is written when the next step has one, or at the end; of
  // two of one tag the later counts.
  void scalar(std::string_view tag, double value, std::int64_t step);
  void end();

  const std::string& path() const { return file_.name(); }

 private:
  using Clock = std::chrono::system_clock;
  struct Place {
    std::string id, path;
  };
  static Place make_place(const std::string& folder);
  WandbRun(const Place& place, const Names& names, const std::string& options_json);
  double seconds() const;  // since the run began
  void write(std::uint32_t kind, const ProtobufWriter& content);
  void write_row();

  Clock::time_point start_ = Clock::now();
  File file_;
  WandbLog log_;
  std::uint64_t records_ = 0;
  std::optional<std::int64_t> step_;
  std::vector<std::pair<std::string, std::string>> row_;  // names, and values as JSON
};

}  // namespace mt
