#include "text/hf/hf_words.h"

#include <algorithm>

namespace mt {
namespace {

// Puts the ends of the words that `parts` become into `ends`, in place of what is there.
void join(const std::vector<HfPart>& parts, HfBehavior behavior, std::vector<std::size_t>& ends) {
  ends.clear();
  bool previous = false;  // was the part before a match?
  if (behavior == HfBehavior::merged_with_next) {
    // From the back; `ends` holds the end of each word, its start is the next one's end.
    for (std::size_t i = parts.size(); i-- > 0; previous = parts[i].match) {
      const bool joined = parts[i].match && !previous && !ends.empty();
      if (!joined) ends.push_back(parts[i].end);
    }
    std::ranges::reverse(ends);
    return;
  }
  for (const HfPart& part : parts) {
    const bool joined = behavior == HfBehavior::contiguous             ? part.match == previous
                        : behavior == HfBehavior::merged_with_previous ? part.match && !previous
                                                                       : false;
    if (joined && !ends.empty())
      ends.back() = part.end;
    else
      ends.push_back(part.end);
    previous = part.match;
  }
}

void drop_matches(HfWords& words, const HfMatcher& matcher, bool invert) {
  HfWords kept{.text = {}, .ends = {}, .at_start = words.at_start};
  std::vector<HfPart> parts;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    const std::string_view word = std::string_view(words.text).substr(begin, end - begin);
    parts.clear();
    matcher(word, parts);
    std::size_t at = 0;
    for (const HfPart& part : parts) {
      const bool dropped = part.match != invert || part.end == at;
      if (!dropped) {
        kept.text += word.substr(at, part.end - at);
        kept.ends.push_back(kept.text.size());
      } else if (kept.ends.empty() && part.end != at) {
        kept.at_start = false;
      }
      at = part.end;
    }
    begin = end;
  }
  words = std::move(kept);
}

}  // namespace

void hf_cut(HfWords& words, const HfMatcher& matcher, HfBehavior behavior, bool invert) {
  if (behavior == HfBehavior::removed) return drop_matches(words, matcher, invert);
  std::vector<std::size_t> cut, ends;
  std::vector<HfPart> parts;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    parts.clear();
    matcher(std::string_view(words.text).substr(begin, end - begin), parts);
    if (invert)
      for (HfPart& part : parts) part.match = !part.match;
    join(parts, behavior, ends);
    std::size_t last = begin;
    for (const std::size_t part_end : ends) {
      if (begin + part_end == last) continue;  // an empty match
      cut.push_back(last = begin + part_end);
    }
    begin = end;
  }
  words.ends = std::move(cut);
}

}  // namespace mt
