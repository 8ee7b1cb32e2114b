#include "text/gpt2_split.h"

#include <bit>

#include "text/char_masks.h"
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

// The pieces that begin in the ASCII characters of the 64 bytes text[at, ...) and do not end behind
// them: writes where each ends and returns how many, 0 where the first one is longer.
static std::size_t split_window(std::string_view text, std::size_t at, std::size_t* ends) {
  const CharMasks is(text.substr(at));
  const int known = std::countr_zero(is.multibyte);
  if (known < 3) return 0;
  const std::uint64_t other = ~(is.letter | is.number | is.space);
  const std::uint64_t changes = ~is.space & ((is.letter ^ is.letter << 1) |
                                             (is.number ^ is.number << 1) | (other ^ other << 1));
  // Where a piece begins: at a change, or at the one blank before it, if there is one; at the first
  // and at the last character of white space.  Of the last one known, what follows it is not.
  std::uint64_t starts = changes & ~(is.blank << 1);
  starts |= is.space & ~(is.space << 1 & is.space >> 1);
  starts &= (std::uint64_t{1} << (known - 1)) - 1;
  for (std::uint64_t rest = (starts | 1) & is.apostrophe; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const std::size_t length = contraction_length(text, at + i);
    if (length == 0) continue;
    starts &= ~(std::uint64_t{2} << i);
    if (i + static_cast<int>(length) < known - 1) starts |= std::uint64_t{1} << (i + length);
  }
  std::size_t count = 0;
  for (starts &= ~std::uint64_t{1}; starts != 0; starts &= starts - 1)
    ends[count++] = at + std::countr_zero(starts);
  return count;
}

std::size_t gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  std::size_t count = 0;
  while (at < text.size() && (count == 0 || ends.size() - count >= CharMasks::kBytes)) {
    std::size_t found = 0;
    if (ends.size() >= CharMasks::kBytes) found = split_window(text, at, ends.data() + count);
    if (found == 0) ends[count + found++] = piece_end(text, at);
    count += found;
    at = ends[count - 1];
  }
  return count;
}

}  // namespace mt
