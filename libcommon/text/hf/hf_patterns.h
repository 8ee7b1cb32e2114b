// The regular expressions that tokenizer.json files are known to cut text by, each with the
// function that finds the same matches.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/bpe/word_split.h"

namespace mt {

// The function whose pieces are the matches of `expression`; nullptr: none is known.
Splitter known_splitter(std::string_view expression);

// The function whose pieces are what expressions leave that cut one after another, each match a
// piece; nullptr: none is known.  How many of the last ones it stands for is kKnownSequence.
inline constexpr std::size_t kKnownSequence = 3;
Splitter known_splitter(std::span<const std::string> expressions);

}  // namespace mt
