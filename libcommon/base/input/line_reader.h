// LineReader: the lines of several files, in blocks of whole lines, so that blocks can be worked on
// in parallel, each of a size that stays in a core's cache meanwhile.  Lines end with "\n"; the
// last of a file may lack it and never runs on into the next file.  A byte order mark before UTF-8
// is passed over; UTF-16 is refused.  A shard is one of several equal
// parts of all the bytes, as stored: the lines that begin in it, and packed files that begin in it,
// whole; so the shards' lines one after another are all lines in their order.  Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/input/byte_source.h"

namespace mt {

// The files that are meant: "-" (stdin), files that exist, and patterns of glob(7), whose matches
// are sorted.  Throws where a pattern matches nothing or a file cannot be read, before any is, and
// where refuse_terminal() does.
std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs);

// Exit::usage where the file, or stdin, "-", is a terminal, which nobody knows to be waited for.
void refuse_terminal(const std::string& path);

// Bytes of all these files as stored; 0 where one is not a regular file.
std::uint64_t stored_size(const std::vector<std::string>& paths);

// Movable; owns its bytes.
struct LineBlock {
  static constexpr std::size_t kPadding = 64;  // readable bytes behind the text

  std::string file;             // for errors
  std::int64_t first_line = 1;  // of this file, from 1
  std::unique_ptr<char[]> bytes;
  std::size_t begin = 0, size = 0;  // of the text in them
  std::size_t capacity = 0;         // for how long a text there is room
  std::int64_t stored_end = 0;  // bytes read of all inputs, as stored, when the block was complete
  // Where the block is one line that was too long to be read: what to say of it.  The text is its
  // beginning.
  std::string too_long = {};

  std::string_view text() const { return {bytes.get() + begin, size}; }
  // Overwrites the text with `start`, which may be this text, and makes room for `room` bytes in
  // all and the padding.  What is read behind `start` begins with a line of the processor's cache.
  void restart(std::string_view start, std::size_t room);
};

class LineReader {
 public:
  struct Options {
    std::vector<std::string> inputs;  // expanded
    std::size_t block_bytes = 256 << 10;
    std::size_t line_limit = std::size_t{1} << 30;  // a longer line is Exit::bad_data
    std::string limit_hint = {};                    // for that error
    bool pass_long_lines = false;                   // which are then told by LineBlock::too_long
    bool are_json = false;                          // a Parquet file's rows are taken as lines
    std::int64_t shard = 0, shards = 1;             // other than 1: of regular files only
    std::int64_t skip_lines = 0;                    // the first ones are read and not given
    // Runs before every block and while a pipe has nothing to give; what it throws ends the read.
    std::function<void()> checkpoint = [] {};
  };
  explicit LineReader(Options options);

  // Overwrites `block`, whose memory is used again; false at the end of the last file.
  bool next(LineBlock& block);
  // Blocks are larger only where a line is.
  std::size_t block_bytes() const { return options_.block_bytes; }

  // All files read to their end so far, with sizes and hashes as stored; of a shard, of its lines.
  const std::vector<InputFile>& inputs() const { return inputs_; }
  std::int64_t stored_bytes() const;  // read so far, of all files

 private:
  struct Part {  // of a file: the lines that begin in [begin, end)
    std::string path;
    std::uint64_t begin = 0, end = kAll;
  };
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  static std::vector<Part> parts_of(const Options& options);
  void open(const Part& part);
  bool fill(LineBlock& block);
  std::size_t cut_at_end(std::string_view text, std::size_t lines_end);
  void pass_long_line(LineBlock& block);
  bool skip(LineBlock& block);
  void close_source();

  Options options_;
  std::vector<Part> parts_;
  std::size_t opened_ = 0;
  std::uint64_t position_ = 0;  // of carry_ in the part's file
  bool part_ended_ = false;
  std::optional<Hasher> part_hash_;  // of the lines of a part that is not a whole file
  std::int64_t part_bytes_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::int64_t line_ = 1;
  std::string carry_;  // the beginning of a line whose end is still to be read
  std::vector<InputFile> inputs_;
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
