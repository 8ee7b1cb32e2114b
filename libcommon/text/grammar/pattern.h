// Regular expressions in a grammar: characters, ., classes, \d \w \s and their opposites, escapes,
// groups, |, * + ? and {m,n}, with ^ and $ at the ends of the whole.  Exit::bad_data for anything
// else, and for more than 1024 bytes.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace mt {

// Runs of code points, in order and apart from each other.
using PointRanges = std::vector<std::pair<char32_t, char32_t>>;
PointRanges complement(PointRanges ranges);

struct PatternWriter {
  // Adds one character that is among the ranges, as it is written; returns the node behind it.
  ByteGrammar::Node (*character)(ByteGrammar& grammar, ByteGrammar::Node from,
                                 const PointRanges& ranges);
  bool whole = false;  // the expression is all of the text, else anywhere in it
};
ByteGrammar::Node add_pattern(ByteGrammar& grammar, ByteGrammar::Node from,
                              std::string_view pattern, const PatternWriter& write);

// The texts that the expression matches from their beginning to their end.
ByteGrammar grammar_of_pattern(std::string_view pattern);

}  // namespace mt
