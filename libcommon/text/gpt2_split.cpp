#include "text/gpt2_split.h"

#include "text/char_runs.h"

namespace mt {

// The length of the contraction at text[at], an apostrophe; 0 when there is none.
static std::size_t contraction_length(std::string_view text, std::size_t at) {
  const std::string_view tail = text.substr(at + 1, 2);
  if (tail.empty()) return 0;
  if (tail[0] == 's' || tail[0] == 't' || tail[0] == 'm' || tail[0] == 'd') return 2;
  return tail == "re" || tail == "ve" || tail == "ll" ? 3 : 0;
}

static std::size_t piece_end(std::string_view text, std::size_t at) {
  std::size_t next = at;
  CharClass first = next_class(text, next);
  if (first == CharClass::other && text[at] == '\'')
    if (const std::size_t length = contraction_length(text, at)) return at + length;
  if (first == CharClass::space) {
    if (text[at] != ' ' || next == text.size()) return space_end(text, at);
    first = next_class(text, next);  // the optional space of a word
    if (first == CharClass::space) return space_end(text, at);
  }
  return run_end(text, next, first);
}

std::size_t gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  std::size_t count = 0;
  for (; at < text.size() && count < ends.size(); ++count) ends[count] = at = piece_end(text, at);
  return count;
}

}  // namespace mt
