#include "base/input/text_lines.h"

#include <simdjson.h>

#include <algorithm>

namespace mt {

TextLines::TextLines(const LineBlock& block)
    : rest_(block.text()),
      number_(block.first_line),
      valid_(simdjson::validate_utf8(rest_)),
      returns_(rest_.find('\r') != rest_.npos) {}

bool TextLines::next(Line& line) {
  if (rest_.empty()) return false;
  const std::size_t size = std::min(rest_.find('\n'), rest_.size());
  const bool ended = size < rest_.size();
  line = {rest_.substr(0, size), rest_.substr(0, size + (ended ? 1 : 0)), number_++};
  rest_.remove_prefix(line.text.size());
  if (ended && line.line.ends_with('\r')) {
    copy_ = line.line;
    copy_.back() = '\n';
    line.text = copy_;
  }
  if (!valid_ && !simdjson::validate_utf8(line.text))
    line.wrong = "invalid UTF-8";
  else if (returns_ && line.text.find('\r') != line.text.npos)
    line.wrong = "a carriage return inside the line";
  return true;
}

}  // namespace mt
