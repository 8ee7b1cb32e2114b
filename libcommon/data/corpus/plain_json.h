// PlainJsonReader: the one pass in which most lines of a corpus are read.  It takes an object all
// of whose members are strings; what else a line holds, and what is wrong with it, JsonLineParser
// (data/corpus/json_lines.h) finds out.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/json_copy.h"

namespace mt {

class PlainJsonReader {
 public:
  static constexpr std::size_t kPadding =
      kJsonPadding;  // bytes behind the lines that must be readable

  explicit PlainJsonReader(const std::vector<std::string>& keys);

  // Reads the line that `lines` begin with and returns its length.  The text of each key, of equal
  // ones in the line the last, is in texts[i] then, valid until the next read().  Nothing, with
  // `texts` undefined, where the line is not valid JSON in valid UTF-8, lacks a key, or has a value
  // that is no string or holds half a surrogate pair.
  std::optional<std::size_t> read(std::string_view lines,
                                  std::vector<std::vector<std::string_view>>& texts);

 private:
  struct Key {
    std::string text;
    std::string written;  // as lines mostly have it, behind its first quote; empty: with escapes
  };
  std::vector<Key> keys_;
  JsonCopier copier_ = json_copier();
  std::unique_ptr<char[]> room_;  // the strings without their escapes
  std::size_t capacity_ = 0;
};

}  // namespace mt
