#include "text/unicode/utf8_stream.h"

#include <cstddef>

#include "base/utf8.h"

namespace mt {

// How many bytes a character with this first byte has; 1 for bytes that start none.
static std::size_t length_of(unsigned char lead) {
  if (lead < 0xC2 || lead > 0xF4) return 1;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

void Utf8Stream::push(std::string_view bytes, std::string& text) {
  held_ += bytes;
  std::size_t at = 0;
  while (at < held_.size()) {
    std::size_t next = at;
    const char32_t point = next_code_point(held_, next);
    // An ill-formed part that reaches to the end and is shorter than its first byte says is cut.
    const bool cut = point == kReplacement && next == held_.size() &&
                     next - at < length_of(static_cast<unsigned char>(held_[at]));
    if (cut) break;
    append_utf8(text, point);
    at = next;
  }
  held_.erase(0, at);
}

void Utf8Stream::finish(std::string& text) {
  text += replace_invalid_utf8(held_);
  held_.clear();
}

}  // namespace mt
