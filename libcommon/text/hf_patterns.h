// The regular expressions that tokenizer.json files are known to cut text by, each with the
// function that finds the same matches.
#pragma once

#include <string_view>

#include "text/word_split.h"

namespace mt {

// The function whose pieces are the matches of `expression`; nullptr: none is known.
Splitter known_splitter(std::string_view expression);

}  // namespace mt
