// EventFile: a file of scalars that TensorBoard reads, DIR/events.out.tfevents.SECONDS.HOST.PID.N.
//
// The file is a row of records (tensorflow/core/lib/io/record_writer.cc), little endian:
//   u64 length   u32 masked(crc of the length)   data   u32 masked(crc of the data)
//   crc: CRC-32C (Castagnoli);  masked(c) = (c >> 15 | c << 17) + 0xa282ead8
// Each is a protobuf of tensorflow.Event (tensorflow/core/util/event.proto):
//   1 wall_time: double   2 step: int64   3 file_version: "brain.Event:2", the first record's
//   5 summary { 1 value { 1 tag: string   2 simple_value: float } }
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace mt {

std::uint32_t crc32c(std::string_view data);

// A record of one scalar; `wall_time` in seconds since 1970.
std::string scalar_record(double wall_time, std::int64_t step, std::string_view tag, float value);
// The record that every file begins with.
std::string version_record(double wall_time);

class EventFile {
 public:
  // Creates the file, and `folder` if need be.  Up to `queue_size` scalars wait in memory, for two
  // minutes at most.  Errors: Exit::cannot_create, io_error.
  EventFile(const std::string& folder, std::int64_t queue_size);
  EventFile(const EventFile&) = delete;
  ~EventFile();  // writes what waits; an error then is lost: flush() before

  void scalar(std::string_view tag, double value, std::int64_t step);
  void flush();

 private:
  using Clock = std::chrono::steady_clock;
  File file_;
  std::int64_t queue_size_, queued_ = 0;
  std::string queue_;
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace mt
