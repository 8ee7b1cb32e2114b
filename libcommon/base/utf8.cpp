#include "base/utf8.h"

namespace mt {

// Unicode 15, table 3-7: how many bytes follow a lead byte, and the bounds of the first of them.
struct Lead {
  int trail;
  unsigned char low, high;
};

static Lead classify(unsigned char lead) {
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {1, 0x80, 0xBF};
  if (lead == 0xE0) return {2, 0xA0, 0xBF};
  if (lead == 0xED) return {2, 0x80, 0x9F};  // no surrogates
  if (lead < 0xF0) return {2, 0x80, 0xBF};
  if (lead == 0xF0) return {3, 0x90, 0xBF};
  if (lead < 0xF4) return {3, 0x80, 0xBF};
  if (lead == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const Lead lead = classify(first);
  if (lead.trail == 0) return kReplacement;
  char32_t point = first & (0x3F >> lead.trail);
  for (int i = 0; i < lead.trail; ++i, ++at) {
    const unsigned char low = i == 0 ? lead.low : 0x80, high = i == 0 ? lead.high : 0xBF;
    if (at == text.size() || byte(at) < low || byte(at) > high) return kReplacement;
    point = (point << 6) | (byte(at) & 0x3F);
  }
  return point;
}

void append_utf8(std::string& out, char32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  const int trail = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xFF00 >> (trail + 1) & 0xFF) | (point >> (6 * trail)));
  for (int i = trail - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3F));
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    if (next_code_point(text, at) == kReplacement &&
        text.substr(start, at - start) != "\xEF\xBF\xBD")
      return false;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_utf8(out, next_code_point(text, at));
  return out;
}

}  // namespace mt
