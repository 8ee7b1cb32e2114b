// Texts of JSON in a grammar: at most one blank behind a colon or a comma and none elsewhere; a
// character of a string is written plainly where JSON allows that, or else as its escape.
#pragma once

#include <string_view>

#include "text/grammar/pattern.h"

namespace mt {

// One character of a string that is among these, in the one way in which it is written.
ByteGrammar::Node add_character(ByteGrammar& grammar, ByteGrammar::Node from,
                                const PointRanges& ranges);

// The inside of a string in which a regular expression matches (pattern.h).
ByteGrammar::Node add_json_pattern(ByteGrammar& grammar, ByteGrammar::Node from,
                                   std::string_view pattern);

// Exit::bad_data for a format that is not date-time, date, time, uuid, ipv4 or email.
std::string_view pattern_of_format(std::string_view format);

}  // namespace mt
