// What is wrong with a text that is no JSON, for messages: simdjson does not tell where it is, nor
// what else the text may be.
#pragma once

#include <string>
#include <string_view>

namespace mt {

// "byte 17: " for the first byte that cannot stand there in JSON (RFC 8259, UTF-8, whole surrogate
// pairs); for a text that is only cut, its size.  Empty for JSON, which a reader may still refuse:
// too deep, a number out of range.
std::string json_place(std::string_view text);

// What a line is of a file of JSON whose lines are no objects, and what makes such lines of it;
// empty for others.
std::string other_json_form(std::string_view line);
// Exit::bad_data, at `place`, where a line is such, or does not begin as an object does.
void check_begins_object(std::string_view line, std::string_view place);

}  // namespace mt
