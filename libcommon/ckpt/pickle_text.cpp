#include "ckpt/pickle_text.h"

#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace mt {

static std::optional<std::uint32_t> hexadecimal(std::string_view digits) {
  std::uint32_t number = 0;
  const char* const end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, number, 16).ptr != end) return {};
  return number;
}

std::optional<std::string> unquote_python(std::string_view line) {
  constexpr std::string_view kLetters = "\\'\"ntr", kMeanings = "\\'\"\n\t\r";
  if (line.size() < 2 || (line[0] != '\'' && line[0] != '"') || line.back() != line[0]) return {};
  line = line.substr(1, line.size() - 2);
  std::string result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      result += line[i];
      continue;
    }
    if (++i == line.size()) return {};
    if (const std::size_t known = kLetters.find(line[i]); known != std::string_view::npos) {
      result += kMeanings[known];
      continue;
    }
    if (line[i] != 'x' || line.size() - i < 3) return {};
    const auto byte = hexadecimal(line.substr(i + 1, 2));
    if (!byte) return {};
    result += static_cast<char>(*byte);
    i += 2;
  }
  return result;
}

std::optional<std::string> decode_raw_unicode(std::string_view line) {
  std::string result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
    const std::size_t digits = letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) {
      append_utf8(result, static_cast<unsigned char>(line[i]));
      continue;
    }
    if (line.size() - i - 2 < digits) return {};
    const auto point = hexadecimal(line.substr(i + 2, digits));
    if (!point || *point > 0x10FFFF || (0xD800 <= *point && *point < 0xE000)) return {};
    append_utf8(result, *point);
    i += 1 + digits;
  }
  return result;
}

}  // namespace mt
