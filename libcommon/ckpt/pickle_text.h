// Strings as protocol 0 of Python's pickle spells them, one to a line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mt {

// 'text' or "text" as repr() writes a Python 2 string, with the escapes \\ \' \" \n \t \r \xHH: its
// bytes.  Nothing if quotes or escapes are wrong.
std::optional<std::string> unquote_python(std::string_view line);

// The codec raw-unicode-escape: \uXXXX and \UXXXXXXXX, every other byte is a Latin-1 character.  As
// UTF-8; nothing if an escape is cut off or no character.
std::optional<std::string> decode_raw_unicode(std::string_view line);

}  // namespace mt
