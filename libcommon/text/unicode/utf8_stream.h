// Utf8Stream: bytes that arrive in parts become well-formed UTF-8, each character as soon as it is
// complete.  What comes out is together replace_invalid_utf8() of all that went in.
#pragma once

#include <string>
#include <string_view>

namespace mt {

class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& text);  // appends the characters that are complete
  void finish(std::string& text);                        // appends U+FFFD for a cut character

 private:
  std::string held_;  // the bytes of a character that may yet be completed; at most 3
};

}  // namespace mt
