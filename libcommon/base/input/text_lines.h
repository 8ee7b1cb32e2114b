// TextLines: the lines of a text file as texts, each with its newline, which is "\n" also where the
// file has "\r\n".  Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/input/line_reader.h"

namespace mt {

class TextLines {
 public:
  struct Line {
    std::string_view line, text;  // as it is, without "\n"; the text, until next()
    std::int64_t number = 0;      // in its file, from 1
    const char* wrong = nullptr;  // why it is no text; null: it is one
  };
  explicit TextLines(const LineBlock& block);  // must outlive it

  bool next(Line& line);  // false behind the last

 private:
  std::string_view rest_;
  std::int64_t number_;
  bool valid_, returns_;  // all of the block is UTF-8; it has a carriage return
  std::string copy_;
};

}  // namespace mt
