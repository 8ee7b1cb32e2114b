// HfWords: a text on its way to tokens, cut into words, and the ways in which Hugging Face's
// pre-tokenizers cut words further.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct HfWords {
  std::string text;               // well-formed UTF-8
  std::vector<std::size_t> ends;  // of each word; together they are the text, none is empty
  bool at_start = false;          // does the first word begin where the document does?
};

// A part of a word: what a pattern matches, or what is between.
struct HfPart {
  std::size_t end;  // in the word
  bool match;
};

// Appends the parts of a word, which together are the word.
using HfMatcher = std::function<void(std::string_view word, std::vector<HfPart>& parts)>;

enum class HfBehavior {
  removed,               // only what is between is kept
  isolated,              // each part is a word
  merged_with_previous,  // a match is joined to what is before it, if that is none
  merged_with_next,
  contiguous,  // neighbours of one kind are joined
};

// Cuts each word by what `matcher` finds in it.  With `invert` what is between counts as the
// matches.
void hf_cut(HfWords& words, const HfMatcher& matcher, HfBehavior behavior, bool invert = false);

}  // namespace mt
