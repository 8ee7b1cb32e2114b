#include "text/hf_precompiled.h"

#include "base/utf8.h"
#include "text/hf_tables.h"

namespace mt {
namespace {

enum class Hangul { none, leading, vowel, trailing, open_syllable, closed_syllable };

Hangul hangul_of(char32_t p) {
  if ((p >= 0x1100 && p <= 0x115F) || (p >= 0xA960 && p <= 0xA97C)) return Hangul::leading;
  if ((p >= 0x1160 && p <= 0x11A7) || (p >= 0xD7B0 && p <= 0xD7C6)) return Hangul::vowel;
  if ((p >= 0x11A8 && p <= 0x11FF) || (p >= 0xD7CB && p <= 0xD7FB)) return Hangul::trailing;
  if (p < 0xAC00 || p > 0xD7A3) return Hangul::none;
  return (p - 0xAC00) % 28 == 0 ? Hangul::open_syllable : Hangul::closed_syllable;
}

bool one_syllable(Hangul before, Hangul next) {
  using enum Hangul;
  if (before == leading)
    return next == leading || next == vowel || next == open_syllable || next == closed_syllable;
  if (before == vowel || before == open_syllable) return next == vowel || next == trailing;
  return (before == trailing || before == closed_syllable) && next == trailing;
}

constexpr char32_t kJoiner = 0x200D;

// What a cluster's characters so far are to the rules that look back at more than one of them.
class Cluster {
 public:
  explicit Cluster(char32_t first) { add(first); }

  void add(char32_t point) {
    emoji_joined_ = emoji_ && point == kJoiner;
    emoji_ = hf_is(point, HfFlag::pictograph) || (emoji_ && hf_is(point, HfFlag::extends));
    if (hf_is(point, HfFlag::consonant)) {
      consonant_ = true;
      linked_ = false;
    } else {
      consonant_ = consonant_ && hf_is(point, HfFlag::conjunct_extends);
      linked_ = consonant_ && (linked_ || hf_is(point, HfFlag::linker));
    }
    last_ = point;
  }

  bool goes_on_with(char32_t next) const {
    if (last_ == '\r' && next == '\n') return true;
    if (hf_is(last_, HfFlag::breaks) || hf_is(next, HfFlag::breaks)) return false;
    return hf_is(next, HfFlag::extends) || hf_is(last_, HfFlag::prepend) ||
           one_syllable(hangul_of(last_), hangul_of(next)) ||
           (linked_ && hf_is(next, HfFlag::consonant)) ||
           (emoji_joined_ && hf_is(next, HfFlag::pictograph));
  }

 private:
  char32_t last_ = 0;
  bool emoji_ = false, emoji_joined_ = false;  // a pictograph and extending characters; and U+200D
  bool consonant_ = false, linked_ = false;    // one of a conjunct, and then a linker
};

}  // namespace

std::size_t hf_cluster_end(std::string_view text, std::size_t at) {
  Cluster cluster(next_code_point(text, at));
  for (std::size_t next = at; at < text.size(); at = next) {
    const char32_t point = next_code_point(text, next);
    if (!cluster.goes_on_with(point)) break;
    cluster.add(point);
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
    while (at < end) {
      const std::size_t before = at;
      next_code_point(text, at);
      const auto match = map_.longest_prefix(text.substr(before, at - before), 1);
      out += match.length > 0 ? match.replacement : text.substr(before, at - before);
    }
  }
  return out;
}

}  // namespace mt
