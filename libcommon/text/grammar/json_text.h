// Texts of JSON in a grammar: at most one blank behind a colon or a comma and none elsewhere; a
// character of a string is written plainly where JSON allows that, or else as its escape.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace mt {

// Runs of code points, in order and apart from each other.
using PointRanges = std::vector<std::pair<char32_t, char32_t>>;
PointRanges complement(PointRanges ranges);

// One character of a string that is among these, in the one way in which it is written.
ByteGrammar::Node add_character(ByteGrammar& grammar, ByteGrammar::Node from,
                                const PointRanges& ranges);

// The inside of a string that a regular expression matches: characters, ., classes, \d \w \s and
// their opposites, escapes, groups, |, * + ? and {m,n}, with ^ and $ at the ends of the whole.
// Exit::bad_data for anything else, and for more than 1024 bytes.
ByteGrammar::Node add_pattern(ByteGrammar& grammar, ByteGrammar::Node from,
                              std::string_view pattern);

// Exit::bad_data for a format that is not date-time, date, time, uuid, ipv4 or email.
std::string_view pattern_of_format(std::string_view format);

}  // namespace mt
