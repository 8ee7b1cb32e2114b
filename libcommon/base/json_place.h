// Where a text stops being JSON, for messages: simdjson tells what is wrong, but not where.
#pragma once

#include <string>
#include <string_view>

namespace mt {

// "byte 17: " for the first byte that cannot stand there in JSON (RFC 8259, UTF-8, whole surrogate
// pairs); for a text that is only cut, its size.  Empty for JSON, which a reader may still refuse:
// too deep, a number out of range.
std::string json_place(std::string_view text);

}  // namespace mt
