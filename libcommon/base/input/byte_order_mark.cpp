#include "base/input/byte_order_mark.h"

#include "base/error.h"

namespace mt {

// Which of Unicode's wider encodings a file has that begins so; empty: none.  Where there is no
// byte order mark the zeros of two letters, or of one of four bytes, tell.
static std::string_view wide_encoding(std::string_view start) {
  using std::string_view_literals::operator""sv;
  if (start.starts_with("\xFF\xFE\0\0"sv) || start.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) return "UTF-16";
  unsigned zeros = 0;
  for (std::size_t i = 0; start.size() >= 4 && i < 4; ++i) zeros |= (start[i] == '\0') << i;
  switch (zeros) {
    case 0b1010:
      return "UTF-16LE";
    case 0b0101:
      return "UTF-16BE";
    case 0b1110:
      return "UTF-32LE";
    case 0b0111:
      return "UTF-32BE";
    default:
      return {};
  }
}

std::size_t byte_order_mark(std::string_view start, const std::string& name) {
  const std::string_view encoding = wide_encoding(start);
  if (!encoding.empty())
    fail(Exit::bad_data, name, ": is ", encoding,
         encoding.ends_with('E') ? "" : ", by its byte order mark",
         "; expected UTF-8, which iconv -f ", encoding, " -t UTF-8 makes of it");
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return start.starts_with(kMark) ? kMark.size() : 0;
}

}  // namespace mt
