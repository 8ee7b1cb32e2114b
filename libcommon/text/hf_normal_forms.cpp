#include "text/hf_normal_forms.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/utf8.h"
#include "text/hf_tables.h"

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
  const std::span<const Pair> pairs(kPairs, kPairCount);
  const auto found =
      std::ranges::lower_bound(pairs, std::pair(first, second), {},
                               [](const Pair& pair) { return std::pair(pair.first, pair.second); });
  const bool there = found != pairs.end() && found->first == first && found->second == second;
  return there ? found->composed : 0;
}

// D117: each character is composed with the last one of class 0 before it, unless one of its own
// class or a higher one, or another of class 0, stands between them.
void compose(std::u32string& text) {
  std::size_t size = 0, starter = text.size();  // starter: none yet
  std::uint8_t last_class = 0;                  // of what is behind the starter
  for (const char32_t point : std::u32string(text)) {
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

// Where the first character is that may not stay as it is.
std::size_t first_change(std::string_view text, NormalForm form) {
  const bool composing = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkd || form == NormalForm::nfkc;
  auto changing = static_cast<unsigned>(composing ? HfFlag::composes : HfFlag::canonical);
  if (compatible) changing |= static_cast<unsigned>(HfFlag::compatible);
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t before = at;
    const Entry& entry = hf_entry(next_code_point(text, at));
    if ((entry.flags & changing) != 0 || entry.combining_class != 0) return before;
  }
  return text.size();
}

// The start of the character before `at` that begins a new part: of class 0, composing with none
// before it.
std::size_t part_start(std::string_view text, std::size_t at) {
  while (at > 0) {
    do --at;
    while ((text[at] & 0xC0) == 0x80);
    std::size_t next = at;
    const Entry& entry = hf_entry(next_code_point(text, next));
    if (entry.combining_class == 0 && (entry.flags & static_cast<unsigned>(HfFlag::composes)) == 0)
      break;
  }
  return at;
}

}  // namespace

std::string hf_normal_form(std::string_view text, NormalForm form) {
  const std::size_t first = first_change(text, form);
  if (first == text.size()) return std::string(text);
  const std::size_t changed = part_start(text, first);
  std::string out(text.substr(0, changed));
  std::u32string points;
  Decomposition decomposition(form == NormalForm::nfkd || form == NormalForm::nfkc, points);
  for (std::size_t at = changed; at < text.size();) decomposition.add(next_code_point(text, at));
  decomposition.order();
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(points);
  for (const char32_t point : points) append_utf8(out, point);
  return out;
}

std::string hf_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char byte = text[at];
    if (static_cast<unsigned char>(byte) < 0x80) {
      out += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
      ++at;
      continue;
    }
    const std::size_t before = at;
    const char32_t point = next_code_point(text, at);
    if (hf_is(point, HfFlag::lower))
      for (const char32_t part : mapped({kLower, kLowerCount}, point)) append_utf8(out, part);
    else
      out += text.substr(before, at - before);
  }
  return out;
}

}  // namespace mt
