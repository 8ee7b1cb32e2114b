#include "base/input/line_reader.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/input/byte_order_mark.h"

namespace mt {

static std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found = {};
  const int result = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) fail(Exit::no_input, pattern, ": no file matches");
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (result != 0) fail_errno(pattern, "cannot list", Exit::io_error);
  std::sort(paths.begin(), paths.end());  // in the order of the bytes, whatever the locale
  return paths;
}

void refuse_terminal(const std::string& path) {
  if (path == "-" && ::isatty(STDIN_FILENO) == 1)
    fail(Exit::usage, "-: stdin is a terminal, expected a pipe or a file");
  struct stat status;  // a pipe is not opened for this: its writer would be told of a reader
  if (path == "-" || ::stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return;
  const File opened(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), path);
  if (::isatty(opened.descriptor()) == 1)
    fail(Exit::usage, path, ": is a terminal, expected a pipe or a file");
}

std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path) {
    std::error_code none;
    if (path == "-" && std::ranges::count(paths, path) > 0)
      fail(Exit::usage, "-: named twice, but stdin can be read once");
    refuse_terminal(path);
    if (std::filesystem::is_directory(path, none))
      fail(Exit::no_input, path, ": is a directory, expected a file");
    paths.push_back(path);
  };
  for (const std::string& input : inputs) {
    const bool pattern = input.find_first_of("*?[") != std::string::npos;
    if (!pattern || std::filesystem::exists(input)) {
      if (input != "-" && ::access(input.c_str(), R_OK) != 0)
        fail_errno(input, "cannot open", Exit::no_input);
      add(input);
      continue;
    }
    for (const std::string& path : matches_of(input)) add(path);
  }
  return paths;
}

std::uint64_t stored_size(const std::vector<std::string>& paths) {
  std::uint64_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    total += std::filesystem::file_size(path, error);
    if (error) return 0;
  }
  return total;
}

LineReader::LineReader(Options options)
    : options_(std::move(options)), parts_(parts_of(options_)) {}

std::vector<LineReader::Part> LineReader::parts_of(const Options& options) {
  std::vector<Part> parts;
  if (options.shards == 1) {
    for (const std::string& path : options.inputs) parts.push_back({path});
    return parts;
  }
  std::vector<std::uint64_t> sizes;
  std::uint64_t total = 0;
  for (const std::string& path : options.inputs) {
    if (path == "-" || !File::open(path, O_NONBLOCK).is_regular())
      fail(Exit::usage, "--shard: ", path, " has no size; expected regular files");
    sizes.push_back(std::filesystem::file_size(path));
    total += sizes.back();
  }
  const auto bound = [&](std::int64_t shard) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) *
                                      static_cast<std::uint64_t>(shard) /
                                      static_cast<std::uint64_t>(options.shards));
  };
  const std::uint64_t begin = bound(options.shard), end = bound(options.shard + 1);
  std::uint64_t at = 0;  // where the file begins in all bytes
  for (std::size_t i = 0; i < sizes.size(); at += sizes[i++]) {
    const std::string& path = options.inputs[i];
    const std::uint64_t from = std::max(begin, at), to = std::min(end, at + sizes[i]);
    if (from >= to) continue;
    const bool whole = from == at && to == at + sizes[i];
    if (whole || ByteSource(
                     path, [] {}, 0, options.are_json)
                     .packed()) {
      if (from == at) parts.push_back({path});
    } else {
      parts.push_back({path, from - at, to - at});
    }
  }
  return parts;
}

std::int64_t LineReader::stored_bytes() const {
  return closed_bytes_ + (source_ ? source_->stored_bytes() : 0);
}

void LineReader::close_source() {
  const std::string& path = parts_[opened_ - 1].path;
  if (part_hash_)
    inputs_.push_back({path, part_bytes_, part_hash_->hex()});
  else
    inputs_.push_back({path, source_->stored_bytes(), source_->hash()});
  closed_bytes_ += source_->stored_bytes();
  source_.reset();
}

// A line that begins before the part belongs to another.
void LineReader::open(const Part& part) {
  const bool whole = part.end == kAll;
  position_ = part.begin == 0 ? 0 : part.begin - 1;
  source_ =
      std::make_unique<ByteSource>(part.path, options_.checkpoint, position_, options_.are_json);
  part_hash_.reset();
  if (!whole) part_hash_.emplace();
  part_bytes_ = 0;
  part_ended_ = false;
  line_ = 1;
  carry_.clear();
  if (part.begin == 0) return;
  std::vector<char> piece(64 << 10);
  while (const std::size_t count = source_->read(piece)) {
    const std::string_view text(piece.data(), count);
    const std::size_t newline = text.find('\n');
    position_ += newline == text.npos ? count : newline + 1;
    if (newline == text.npos) continue;
    carry_ = text.substr(newline + 1);
    return;
  }
}

bool LineReader::next(LineBlock& block) {
  do {
    options_.checkpoint();
    for (;;) {
      if (!source_) {
        if (opened_ == parts_.size()) return false;
        open(parts_[opened_++]);
      }
      if (fill(block)) break;
      close_source();
    }
  } while (!skip(block));
  return true;
}

// Drops lines that are not wanted; false where nothing remains.
bool LineReader::skip(LineBlock& block) {
  std::size_t at = 0;
  if (!block.too_long.empty() && options_.skip_lines > 0) {
    --options_.skip_lines;
    return false;
  }
  for (; options_.skip_lines > 0 && at < block.size; --options_.skip_lines, ++block.first_line)
    at = std::min(block.text().find('\n', at), block.size - 1) + 1;
  if (at == 0) return true;
  block.begin += at;
  block.size -= at;
  return block.size > 0;
}

// Where the lines end that begin in the part, if that is before `lines_end`, where whole lines do.
std::size_t LineReader::cut_at_end(std::string_view text, std::size_t lines_end) {
  const std::uint64_t end = parts_[opened_ - 1].end;
  if (end == kAll || position_ + lines_end < end) return lines_end;
  part_ended_ = true;
  return std::min(text.find('\n', static_cast<std::size_t>(end - position_) - 1), lines_end - 1) +
         1;
}

void LineBlock::restart(std::string_view start, std::size_t room) {
  constexpr std::size_t kCacheLine = 64;
  std::unique_ptr<char[]> old;  // may hold `start`
  if (room > capacity) {
    old =
        std::exchange(bytes, std::make_unique_for_overwrite<char[]>(kCacheLine + room + kPadding));
    capacity = room;
  }
  begin = -(reinterpret_cast<std::uintptr_t>(bytes.get()) + start.size()) % kCacheLine;
  std::memmove(bytes.get() + begin, start.data(), start.size());
  size = start.size();
}

// Counts line ends as std::count() does, but in sums of bytes, which the compiler makes vectors of.
[[gnu::always_inline]] static inline std::int64_t count_in_lanes(std::string_view text) {
  constexpr std::size_t kLanes = 64, kMost = 255 * kLanes;  // a lane's sum is a byte
  std::int64_t count = 0;
  for (; text.size() >= kLanes;
       text.remove_prefix(std::min(kMost, text.size()) / kLanes * kLanes)) {
    std::array<std::uint8_t, kLanes> sums{};
    const std::size_t end = std::min(kMost, text.size()) / kLanes * kLanes;
    for (std::size_t at = 0; at < end; at += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += text[at + lane] == '\n';
    count = std::accumulate(sums.begin(), sums.end(), count);
  }
  return count + std::count(text.begin(), text.end(), '\n');
}
[[gnu::target("avx512f,avx512bw,avx512vl")]] static std::int64_t count_avx512(
    std::string_view text) {
  return count_in_lanes(text);
}
static std::int64_t count_newlines(std::string_view text) {
  const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? count_avx512(text) : count_in_lanes(text);
}

// What begins and ends where a page of the file does is read in a fifth less time.
static std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return bytes < kPage ? bytes : bytes / kPage * kPage;
}

// The block has the beginning of a line, the rest of which is read and dropped.
void LineReader::pass_long_line(LineBlock& block) {
  constexpr std::size_t kKept = 64 << 10;
  const auto note = [&](std::string_view bytes) {
    position_ += bytes.size();
    part_bytes_ += static_cast<std::int64_t>(bytes.size());
    if (part_hash_) part_hash_->update(bytes);
  };
  note(block.text());
  block.size = std::min(block.size, kKept);
  carry_.clear();
  std::vector<char> piece(options_.block_bytes);
  while (const std::size_t count = source_->read(piece)) {
    const std::string_view text(piece.data(), count);
    const std::size_t newline = text.find('\n');
    note(text.substr(0, newline == text.npos ? count : newline + 1));
    if (newline == text.npos) continue;
    carry_ = text.substr(newline + 1);
    break;
  }
  block.too_long = concat("line of more than ", options_.line_limit, " bytes", options_.limit_hint);
}

// Reads until there is a whole line and about a block's bytes, or the file ends.
bool LineReader::fill(LineBlock& block) {
  const Part& part = parts_[opened_ - 1];
  if (part_ended_ || position_ >= part.end) return false;
  std::size_t room = std::max(options_.block_bytes, 2 * carry_.size()), lines_end = 0;
  block.restart(carry_, room);
  block.too_long.clear();
  const bool at_start = position_ == 0 && part.begin == 0;
  for (;;) {
    const std::size_t searched = block.size, end = searched + whole_pages(room - searched);
    bool at_end = false;
    while (block.size < end && !at_end) {
      char* const to = block.bytes.get() + block.begin + block.size;
      const std::size_t count = source_->read({to, end - block.size});
      at_end = count == 0;
      block.size += count;
    }
    const std::size_t newline = block.text().substr(searched).rfind('\n');
    lines_end = at_end                              ? block.size
                : newline == std::string_view::npos ? 0
                                                    : searched + newline + 1;
    if (at_end || lines_end > 0) break;
    if (block.size > options_.line_limit && options_.pass_long_lines) {
      pass_long_line(block);
      break;
    }
    if (block.size > options_.line_limit)
      fail(Exit::bad_data, source_->name(), ":", line_, ": line of more than ", options_.line_limit,
           " bytes", options_.limit_hint);
    block.restart(block.text(), room *= 2);
  }
  if (block.too_long.empty()) {
    lines_end = cut_at_end(block.text(), lines_end);
    carry_.assign(block.text().substr(lines_end));
    block.size = lines_end;
    position_ += lines_end;
    part_bytes_ += static_cast<std::int64_t>(lines_end);
    if (part_hash_) part_hash_->update(block.text());
  }
  std::memset(block.bytes.get() + block.begin + block.size, 0, LineBlock::kPadding);
  if (at_start) {
    const std::size_t mark = byte_order_mark(block.text(), source_->name());
    block.begin += mark;
    block.size -= mark;
  }
  block.file = part.begin == 0 ? part.path : concat(part.path, " from byte ", part.begin);
  block.first_line = line_;
  block.stored_end = stored_bytes();
  line_ += block.too_long.empty() ? count_newlines(block.text()) : 1;
  return block.size > 0;
}

}  // namespace mt
