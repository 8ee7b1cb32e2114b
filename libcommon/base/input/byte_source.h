// ByteSource: the content of a file or of stdin as a stream, unpacked if it is gzip (RFC 1952, any
// number of members), bzip2 (any number of streams) or zstd (RFC 8878, any number of frames), and
// as lines of JSON, for who takes them, if it is a Parquet file; recognised by its first bytes and
// never by its name.  Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace mt {

class ParquetLines;

// A file that a program has read.
struct InputFile {
  std::string path;  // as given
  std::int64_t bytes = 0;
  std::string hash;  // XXH3-128 of the bytes as stored
};

class ByteSource {
 public:
  // "-" is stdin.  `while_waiting` runs several times a second while a pipe or a terminal has
  // nothing to give; what it throws ends the read.  `offset`: where to begin in a regular file
  // that is not packed.  `takes_rows`: the reader is one of JSON; else a Parquet file is refused.
  ByteSource(const std::string& path, std::function<void()> while_waiting, std::uint64_t offset = 0,
             bool takes_rows = false);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills some or all of `into` and says how much; 0 at the end.  Throws Exit::bad_data, with the
  // place in the stored bytes, for packed data that is damaged or ends early.
  std::size_t read(std::span<char> into);

  bool ready() const;  // a read() would not wait
  bool packed() const { return decoder_ != nullptr || rows_ != nullptr; }

  const std::string& name() const { return file_.name(); }
  std::int64_t stored_bytes() const { return stored_bytes_; }  // read so far, packed as they are
  std::string hash() const { return hash_.hex(); }             // of those; of Parquet's at its end

  class Decoder;

 private:
  std::size_t read_stored(std::span<std::byte> into);
  void refill();
  std::size_t read_rows(std::span<char> into);

  File file_;
  std::function<void()> while_waiting_;
  bool may_wait_;  // not a regular file
  Hasher hash_;
  std::int64_t stored_bytes_ = 0;
  std::vector<std::byte> buffer_;
  Bytes stored_;  // the part of buffer_ not yet taken
  bool at_end_ = false;
  std::unique_ptr<Decoder> decoder_;  // null for plain content
  std::unique_ptr<ParquetLines> rows_;
};

}  // namespace mt
