// GPT-2's byte map: each byte has a printable character, so that tokens can be written as text.
// Bytes 33-126, 161-172 and 174-255 are the code points of the same number; the other 68 are, in
// increasing order, U+0100 and following (a space is U+0120).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace mt {

inline constexpr std::array<char16_t, 256> kByteChars = [] {
  std::array<char16_t, 256> chars{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    chars[byte] = printable ? static_cast<char16_t>(byte) : next++;
  }
  return chars;
}();

// The character -> byte direction; -1 for code points that stand for no byte.
inline constexpr std::array<std::int16_t, 0x144> kCharBytes = [] {
  std::array<std::int16_t, 0x144> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kByteChars[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

inline std::string to_byte_chars(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) append_utf8(text, kByteChars[byte]);
  return text;
}

// Nothing when a character stands for no byte.
inline std::optional<std::string> from_byte_chars(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] > ' ' && text[at] < 0x7F) {  // of ASCII
      bytes += text[at++];
      continue;
    }
    const char32_t point = next_code_point(text, at);
    if (point >= kCharBytes.size() || kCharBytes[point] < 0) return std::nullopt;
    bytes += static_cast<char>(kCharBytes[point]);
  }
  return bytes;
}

}  // namespace mt
