#include "text/hf/hf_precompiled.h"

#include "text/hf/hf_tables.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

enum class Hangul { none, leading, vowel, trailing, open_syllable, closed_syllable };

Hangul hangul_of(char32_t p) {
  if (p < 0x1100) return Hangul::none;
  if (p <= 0x115F || (p >= 0xA960 && p <= 0xA97C)) return Hangul::leading;
  if ((p >= 0x1160 && p <= 0x11A7) || (p >= 0xD7B0 && p <= 0xD7C6)) return Hangul::vowel;
  if ((p >= 0x11A8 && p <= 0x11FF) || (p >= 0xD7CB && p <= 0xD7FB)) return Hangul::trailing;
  if (p < 0xAC00 || p > 0xD7A3) return Hangul::none;
  return (p - 0xAC00) % 28 == 0 ? Hangul::open_syllable : Hangul::closed_syllable;
}

bool one_syllable(char32_t last_point, char32_t next_point) {
  using enum Hangul;
  const Hangul next = hangul_of(next_point);
  if (next == none) return false;
  const Hangul before = hangul_of(last_point);
  if (before == leading)
    return next == leading || next == vowel || next == open_syllable || next == closed_syllable;
  if (before == vowel || before == open_syllable) return next == vowel || next == trailing;
  return (before == trailing || before == closed_syllable) && next == trailing;
}

constexpr char32_t kJoiner = 0x200D;

struct Character {
  char32_t point;
  std::uint16_t flags;

  explicit Character(char32_t p) : point(p), flags(hf_entry(p).flags) {}
  bool is(HfFlag flag) const { return (flags & static_cast<std::uint16_t>(flag)) != 0; }
};

// What a cluster's characters so far are to the rules that look back at more than one of them.
class Cluster {
 public:
  explicit Cluster(Character first) : last_(first) { add(first); }

  void add(Character next) {
    emoji_joined_ = emoji_ && next.point == kJoiner;
    emoji_ = next.is(HfFlag::pictograph) || (emoji_ && next.is(HfFlag::extends));
    if (next.is(HfFlag::consonant)) {
      consonant_ = true;
      linked_ = false;
    } else {
      consonant_ = consonant_ && next.is(HfFlag::conjunct_extends);
      linked_ = consonant_ && (linked_ || next.is(HfFlag::linker));
    }
    last_ = next;
  }

  bool goes_on_with(Character next) const {
    if (last_.point == '\r' && next.point == '\n') return true;
    if (last_.is(HfFlag::breaks) || next.is(HfFlag::breaks)) return false;
    return next.is(HfFlag::extends) || last_.is(HfFlag::prepend) ||
           one_syllable(last_.point, next.point) || (linked_ && next.is(HfFlag::consonant)) ||
           (emoji_joined_ && next.is(HfFlag::pictograph));
  }

 private:
  Character last_;
  bool emoji_ = false, emoji_joined_ = false;  // a pictograph and extending characters; and U+200D
  bool consonant_ = false, linked_ = false;    // one of a conjunct, and then a linker
};

}  // namespace

std::size_t hf_cluster_end(std::string_view text, std::size_t at) {
  Cluster cluster(Character(next_valid_code_point(text, at)));
  for (std::size_t next = at; at < text.size(); at = next) {
    const Character character(next_valid_code_point(text, next));
    if (!cluster.goes_on_with(character)) break;
    cluster.add(character);
  }
  return at;
}

HfPrecompiled::HfPrecompiled(CharsMap map) : map_(std::move(map)) {
  for (int byte = 0; byte < 0x80; ++byte)
    plain_[byte] = byte != '\r' && !map_.touches_ascii(static_cast<char>(byte));
}

// Where a run of ASCII ends each of which is a cluster and stays as it is.
std::size_t HfPrecompiled::plain_end(std::string_view text, std::size_t at) const {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  while (at < text.size() && plain_[byte(at)] && (at + 1 == text.size() || byte(at + 1) < 0x80))
    ++at;
  return at;
}

std::string HfPrecompiled::apply(std::string_view text) const {
  constexpr std::size_t kWhole = 6;  // bytes from which on a cluster is no unit
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t end = plain_end(text, at); end > at) {
      out += text.substr(at, end - at);
      at = end;
      continue;
    }
    const std::size_t end = hf_cluster_end(text, at);
    if (end - at < kWhole) {
      if (const auto match = map_.longest_prefix(text.substr(at, end - at), 1); match.length > 0) {
        out += match.replacement;
        at = end;
        continue;
      }
    }
    const bool looked_up = utf8_length(text[at]) == end - at;
    while (at < end) {
      const std::string_view character = text.substr(at, utf8_length(text[at]));
      const auto match = looked_up ? CharsMap::Match() : map_.longest_prefix(character, 1);
      out += match.length > 0 ? match.replacement : character;
      at += character.size();
    }
  }
  return out;
}

}  // namespace mt
