// repaired(): a text without what decoding and copying have done to it, in the manner of Python's
// ftfy: UTF-8 that was read as Windows-1252 or Latin-1 is read again as UTF-8, up to three times
// over (of each run of characters that are bytes from 0x80 on there, where those bytes are whole
// UTF-8 sequences); other control characters from 0x80 to 0x9F are read as Windows-1252; line ends
// become "\n"; control characters but tabs and line ends, and byte order marks, go; what is left is
// in Unicode's form NFC.
#pragma once

#include <string>
#include <string_view>

namespace mt {

std::string repaired(std::string_view text);

}  // namespace mt
