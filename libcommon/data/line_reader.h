// LineReader: the lines of several files, in blocks of about a megabyte of whole lines, so that
// blocks can be worked on in parallel.  Lines end with "\n"; the last of a file may lack it and
// never runs on into the next file.  Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/manifest.h"

namespace mt {

// The files that are meant: "-" (stdin), files that exist, and patterns of glob(7), whose matches
// are sorted.  Throws where a pattern matches nothing or a file cannot be read, before any is.
std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs);

// Bytes of all these files as stored; 0 where one is not a regular file.
std::uint64_t stored_size(const std::vector<std::string>& paths);

// Movable; owns its bytes.
struct LineBlock {
  static constexpr std::size_t kPadding = 64;  // readable bytes behind the text

  std::string file;             // for errors
  std::int64_t first_line = 1;  // of this file, from 1
  std::unique_ptr<char[]> bytes;
  std::size_t size = 0;
  std::int64_t stored_end = 0;  // bytes read of all inputs, as stored, when the block was complete

  std::string_view text() const { return {bytes.get(), size}; }
};

class LineReader {
 public:
  struct Options {
    std::vector<std::string> inputs;  // expanded
    std::size_t block_bytes = 1 << 20;
    std::size_t line_limit = std::size_t{1} << 30;  // a longer line is Exit::bad_data
    // Runs before every block and while a pipe has nothing to give; what it throws ends the read.
    std::function<void()> checkpoint = [] {};
  };
  explicit LineReader(Options options) : options_(std::move(options)) {}

  bool next(LineBlock& block);  // false at the end of the last file

  // All files read to their end so far, with sizes and hashes as stored.
  const std::vector<Manifest::Input>& inputs() const { return inputs_; }
  std::int64_t stored_bytes() const;  // read so far, of all files

 private:
  bool fill(LineBlock& block);
  void close_source();

  Options options_;
  std::size_t opened_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::int64_t line_ = 1;
  std::string carry_;  // the beginning of a line whose end is still to be read
  std::vector<Manifest::Input> inputs_;
  std::int64_t closed_bytes_ = 0;
};

// Calls body(line, number) for every line of the block, without its "\n".
template <class Body>
void for_each_line(const LineBlock& block, Body&& body) {
  std::string_view rest = block.text();
  for (std::int64_t number = block.first_line; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    body(rest.substr(0, end), number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace mt
