#include "data/corpus/text_repair.h"

#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"

namespace mt {
namespace {

// Windows-1252's 0x80 to 0x9F; the bytes that it leaves free stand for themselves.
constexpr char32_t kWindows[] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                 0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                 0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

// The byte from 0x80 on that Windows-1252 or Latin-1 reads as `point`.
std::optional<char> byte_of(char32_t point) {
  const auto found = std::find(std::begin(kWindows), std::end(kWindows), point);
  if (found != std::end(kWindows)) return static_cast<char>(0x80 + (found - std::begin(kWindows)));
  if (point >= 0x80 && point <= 0xFF) return static_cast<char>(point);  // as Latin-1 has it
  return std::nullopt;
}

// One misreading less.
std::string read_again(std::string_view text) {
  std::string out, run, bytes;  // a run as it stands, and as bytes
  const auto end_run = [&] {
    out += is_valid_utf8(bytes) ? bytes : run;
    run.clear();
    bytes.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::optional<char> byte = byte_of(next_code_point(text, at));
    if (!byte) end_run();
    (byte ? run : out) += text.substr(begin, at - begin);
    if (byte) bytes += *byte;
  }
  end_run();
  return out;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    if (point >= 0x80 && point <= 0x9F) {  // a byte of Windows-1252 that was read as Latin-1
      if (kWindows[point - 0x80] > 0x9F) append_utf8(out, kWindows[point - 0x80]);
      continue;
    }
    const bool line_end = point == '\r' || point == 0x2028 || point == 0x2029;
    if (point == '\r' && at < text.size() && text[at] == '\n') continue;
    if (line_end)
      out += '\n';
    else if (point == '\n' || point == '\t' || (point >= 0x20 && point < 0x7F) ||
             (point >= 0xA0 && point != 0xFEFF))
      out += text.substr(begin, at - begin);
  }
  return out;
}

std::string composed(const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const nfc = icu::Normalizer2::getNFCInstance(status);
  if (U_SUCCESS(status) && nfc->isNormalizedUTF8(text, status)) return text;
  std::string out;
  const icu::UnicodeString result = nfc->normalize(icu::UnicodeString::fromUTF8(text), status);
  if (U_FAILURE(status)) fail(Exit::internal, "ICU: ", u_errorName(status));
  return result.toUTF8String(out);
}

}  // namespace

std::string repaired(std::string_view text) {
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t'; }))
    return std::string(text);
  std::string result(text);
  for (int i = 0; i < 3; ++i) {
    std::string again = read_again(result);
    if (again == result) break;
    result = std::move(again);
  }
  return composed(without_controls(result));
}

}  // namespace mt
