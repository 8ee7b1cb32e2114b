#include "data/line_reader.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"

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

std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs) {
  std::vector<std::string> paths;
  for (const std::string& input : inputs) {
    const bool pattern = input.find_first_of("*?[") != std::string::npos;
    if (!pattern || std::filesystem::exists(input)) {
      if (input != "-" && ::access(input.c_str(), R_OK) != 0)
        fail_errno(input, "cannot open", Exit::no_input);
      paths.push_back(input);
      continue;
    }
    for (std::string& path : matches_of(input)) paths.push_back(std::move(path));
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

std::int64_t LineReader::stored_bytes() const {
  return closed_bytes_ + (source_ ? source_->stored_bytes() : 0);
}

void LineReader::close_source() {
  inputs_.push_back({options_.inputs[opened_ - 1], source_->stored_bytes(), source_->hash()});
  closed_bytes_ += source_->stored_bytes();
  source_.reset();
}

bool LineReader::next(LineBlock& block) {
  options_.checkpoint();
  for (;;) {
    if (!source_) {
      if (opened_ == options_.inputs.size()) return false;
      source_ = std::make_unique<ByteSource>(options_.inputs[opened_++], options_.checkpoint);
      line_ = 1;
    }
    if (fill(block)) return true;
    close_source();
  }
}

// Reads until there is a whole line and about a block's bytes, or the file ends.
bool LineReader::fill(LineBlock& block) {
  std::size_t capacity = std::max(options_.block_bytes, 2 * carry_.size());
  auto bytes = std::make_unique_for_overwrite<char[]>(capacity + LineBlock::kPadding);
  std::size_t size = carry_.size(), lines_end = 0;
  std::memcpy(bytes.get(), carry_.data(), size);
  for (;;) {
    const std::size_t searched = size;
    bool at_end = false;
    while (size < capacity && !at_end) {
      const std::size_t count = source_->read({bytes.get() + size, capacity - size});
      at_end = count == 0;
      size += count;
    }
    const std::string_view added(bytes.get() + searched, size - searched);
    const std::size_t newline = added.rfind('\n');
    lines_end = at_end ? size : newline == added.npos ? 0 : searched + newline + 1;
    if (at_end || lines_end > 0) break;
    if (size > options_.line_limit)
      fail(Exit::bad_data, source_->name(), ":", line_, ": line of more than ", options_.line_limit,
           " bytes");
    auto larger = std::make_unique_for_overwrite<char[]>(2 * capacity + LineBlock::kPadding);
    std::memcpy(larger.get(), bytes.get(), size);
    bytes = std::move(larger);
    capacity *= 2;
  }
  carry_.assign(bytes.get() + lines_end, size - lines_end);
  std::memset(bytes.get() + lines_end, 0, LineBlock::kPadding);
  block = {source_->name(), line_, std::move(bytes), lines_end, stored_bytes()};
  line_ += std::count(block.text().begin(), block.text().end(), '\n');
  return lines_end > 0;
}

}  // namespace mt
