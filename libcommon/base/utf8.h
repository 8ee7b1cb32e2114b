// UTF-8 (RFC 3629): decoding that never fails and encoding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mt {

inline constexpr char32_t kReplacement = 0xFFFD;

// The code point at text[at]; `at` moves past it.  An ill-formed sequence gives U+FFFD for each of
// its maximal subparts (Unicode 15, 3.9, table 3-8), which is what WHATWG, Python and Rust do.
char32_t next_code_point(std::string_view text, std::size_t& at);

void append_utf8(std::string& out, char32_t point);

bool is_valid_utf8(std::string_view text);
std::string replace_invalid_utf8(std::string_view text);

}  // namespace mt
