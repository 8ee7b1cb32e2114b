#include "text/hf/hf_normal_forms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "base/utf8.h"
#include "text/bpe/pair_map.h"
#include "text/hf/hf_tables.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

using namespace hf_tables;

// Hangul, by rule (3.12): a syllable is a leading consonant, a vowel and perhaps a trailing
// consonant.
constexpr char32_t kSyllable = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kVowels = 21, kTrailings = 28, kSyllables = 11172, kLeadings = 19;

std::u32string_view mapped(std::span<const Mapping> mappings, char32_t point) {
  const auto found = std::ranges::lower_bound(mappings, point, {}, &Mapping::point);
  if (found == mappings.end() || found->point != point) return {};
  return {kPool + found->begin, found->size};
}

// Brings characters into the order of their classes, those of one class as they are.  Many are
// counted first: linear in their number.
void order_by_class(std::span<char32_t> points) {
  constexpr std::size_t kFew = 32;
  if (points.size() <= kFew)
    return std::stable_sort(points.begin(), points.end(), [](char32_t a, char32_t b) {
      return hf_combining_class(a) < hf_combining_class(b);
    });
  std::array<std::size_t, 257> places{};  // of the next one of each class
  for (const char32_t point : points) ++places[hf_combining_class(point) + 1];
  std::partial_sum(places.begin(), places.end(), places.begin());
  for (const char32_t point : std::u32string(points.begin(), points.end()))
    points[places[hf_combining_class(point)]++] = point;
}

// Takes characters and appends their decompositions to `out`; those of combining classes other than
// 0 are brought into the order of their classes between two of class 0 (D109).
class Decomposition {
 public:
  Decomposition(bool compatible, std::u32string& out) : compatible_(compatible), out_(out) {}

  void add(char32_t point) {
    if (compatible_ && hf_is(point, HfFlag::compatible)) {
      for (const char32_t part : mapped({kCompatible, kCompatibleCount}, point)) put(part);
    } else if (!hf_is(point, HfFlag::canonical)) {
      put(point);
    } else if (point >= kSyllable && point < kSyllable + kSyllables) {
      const char32_t index = point - kSyllable;
      put(kLeading + index / (kVowels * kTrailings));
      put(kVowel + index % (kVowels * kTrailings) / kTrailings);
      if (index % kTrailings != 0) put(kTrailing + index % kTrailings);
    } else {
      for (const char32_t part : mapped({kCanonical, kCanonicalCount}, point)) put(part);
    }
  }

  void order() {  // also at the end
    if (out_.size() > begin_ + 1) order_by_class(std::span(out_).subspan(begin_));
  }

 private:
  void put(char32_t point) {
    if (hf_combining_class(point) == 0) {
      order();
      begin_ = out_.size() + 1;
    }
    out_ += point;
  }

  bool compatible_;
  std::u32string& out_;
  std::size_t begin_ = 0;  // of the characters of other classes at the end
};

// The character that two are together; 0: there is none.
char32_t composed(char32_t first, char32_t second) {
  if (first - kLeading < kLeadings && second - kVowel < kVowels)
    return kSyllable + ((first - kLeading) * kVowels + (second - kVowel)) * kTrailings;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrailings == 0 &&
      second - kTrailing - 1 < kTrailings - 1)
    return first + (second - kTrailing);
  static const PairMap pairs = [] {
    PairMap map;
    for (const Pair& pair : std::span(kPairs, kPairCount))
      map.at(pair.first, pair.second) = pair.composed;
    return map;
  }();
  const char32_t found = pairs.find(first, second);
  return found == PairMap::kNone ? 0 : found;
}

// D117: each character is composed with the last one of class 0 before it, unless one of its own
// class or a higher one, or another of class 0, stands between them.
void compose(std::u32string& text) {
  std::size_t size = 0, starter = text.size();  // starter: none yet
  std::uint8_t last_class = 0;                  // of what is behind the starter
  for (const char32_t point : text) {           // `size` is never beyond it
    const std::uint8_t own_class = hf_combining_class(point);
    const bool adjacent = starter + 1 == size;
    if (starter < size && (adjacent || last_class < own_class)) {
      if (const char32_t both = composed(text[starter], point)) {
        text[starter] = both;
        continue;
      }
    }
    if (own_class == 0) starter = size;
    last_class = own_class;
    text[size++] = point;
  }
  text.resize(size);
}

// Where the run of ASCII that goes on at `at` ends.
std::size_t ascii_end(std::string_view text, std::size_t at) {
  for (std::uint64_t bytes; text.size() - at >= sizeof bytes; at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if (const std::uint64_t others = bytes & 0x8080808080808080)
      return at + static_cast<std::size_t>(std::countr_zero(others)) / 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// Which characters a form changes, or may change by what stands before them (Unicode 15, annex 15,
// 9: quick check).
class Changes {
 public:
  explicit Changes(NormalForm form) {
    const bool composing = form == NormalForm::nfc || form == NormalForm::nfkc;
    flags_ = static_cast<std::uint16_t>(composing ? HfFlag::composes : HfFlag::canonical);
    if (form == NormalForm::nfkd || form == NormalForm::nfkc)
      flags_ |= static_cast<std::uint16_t>(HfFlag::compatible);
  }

  // Where the first such character from `at` on is, where a part begins.
  std::size_t first(std::string_view text, std::size_t at) const {
    std::uint8_t last_class = 0;
    while (at < text.size()) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        at = ascii_end(text, at + 1);
        last_class = 0;
        continue;
      }
      const std::size_t before = at;
      const Entry& entry = hf_entry(next_valid_code_point(text, at));
      const bool disordered = entry.combining_class != 0 && entry.combining_class < last_class;
      if (disordered || (entry.flags & flags_) != 0) return before;
      last_class = entry.combining_class;
    }
    return at;
  }

  // Does a part begin here that nothing before it changes?
  bool begins_part(const Entry& entry) const {
    return entry.combining_class == 0 &&
           (entry.flags & (flags_ | static_cast<std::uint16_t>(HfFlag::composes))) == 0;
  }

  // The start of the part before `at`.
  std::size_t part_start(std::string_view text, std::size_t at) const {
    while (at > 0) {
      do --at;
      while ((text[at] & 0xC0) == 0x80);
      std::size_t next = at;
      if (begins_part(hf_entry(next_valid_code_point(text, next)))) break;
    }
    return at;
  }

 private:
  std::uint16_t flags_;
};

}  // namespace

std::string hf_normal_form(std::string_view text, NormalForm form) {
  const Changes changes(form);
  std::string out;
  std::u32string points;
  std::size_t copied = 0;  // a part begins here; what is before it is in `out`
  for (std::size_t at = 0; (at = changes.first(text, at)) < text.size();) {
    if (copied == 0) out.reserve(text.size());
    const std::size_t begin = changes.part_start(text, at);
    out.append(text, copied, begin - copied);
    points.clear();
    Decomposition decomposition(form == NormalForm::nfkd || form == NormalForm::nfkc, points);
    for (copied = begin; copied < text.size();) {
      std::size_t next = copied;
      const char32_t point = next_valid_code_point(text, next);
      if (copied > at && changes.begins_part(hf_entry(point))) break;
      decomposition.add(point);
      copied = next;
    }
    decomposition.order();
    if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(points);
    for (const char32_t point : points) append_utf8(out, point);
    at = copied;
  }
  return out.append(text, copied);
}

void append_hf_lower(std::string& out, char32_t point) {
  for (const char32_t part : mapped({kLower, kLowerCount}, point)) append_utf8(out, part);
}

}  // namespace mt
