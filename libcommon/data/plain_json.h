// PlainJsonReader: the one pass in which most lines of a corpus are read.  It takes an object all
// of whose members are strings; what else a line holds, and what is wrong with it, JsonLineParser
// (data/json_lines.h) finds out.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/json_copy.h"

namespace mt {

class PlainJsonReader {
 public:
  static constexpr std::size_t kPadding =
      kJsonPadding;  // bytes behind a line that must be readable

  // The text of each of `keys`, of equal ones in the line the last, in texts[i], valid until the
  // next read().  False, with `texts` undefined, where the line is not valid JSON in valid UTF-8,
  // lacks a key, or has a value that is no string or holds half a surrogate pair.
  bool read(std::string_view line, const std::vector<std::string>& keys,
            std::vector<std::vector<std::string_view>>& texts);

 private:
  JsonCopier copier_ = json_copier();
  std::unique_ptr<char[]> room_;  // the strings without their escapes
  std::size_t capacity_ = 0;
  std::vector<bool> found_;  // which keys
};

}  // namespace mt
