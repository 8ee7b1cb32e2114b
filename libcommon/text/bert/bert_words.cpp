#include "text/bert/bert_words.h"

#include <algorithm>
#include <span>

namespace mt {
namespace {

using namespace bert_tables;

constexpr char32_t kSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2;

bool within(std::span<const Range> ranges, char32_t point) {
  const auto after = std::ranges::upper_bound(ranges, point, {}, &Range::first);
  return after != ranges.begin() && point <= std::prev(after)->last;
}
bool is_cased(char32_t point) { return within({kCased, kCasedCount}, point); }
bool is_ignorable(char32_t point) { return within({kIgnorable, kIgnorableCount}, point); }

// The sigma at word[i] ends a word: a cased letter stands before it, but for ignorable characters,
// and none behind it.
bool is_final(std::u32string_view word, std::size_t i, bool after_cased) {
  if (!bert_ends_cased(word.substr(0, i), after_cased)) return false;
  const auto rest = word.substr(i + 1);
  const auto next = std::ranges::find_if_not(rest, is_ignorable);
  return next == rest.end() || !is_cased(*next);
}

std::uint8_t combining_class(char32_t point) {
  const std::span<const Ordered> all(kOrdered, kOrderedCount);
  const auto found = std::ranges::lower_bound(all, point, {}, &Ordered::point);
  return found != all.end() && found->point == point ? found->combining_class : 0;
}

// Takes the characters of a decomposition; those of combining classes other than 0 are brought into
// the order of their classes between two of class 0 (Unicode 14, 3.11, D109).
class Decomposition {
 public:
  explicit Decomposition(std::u32string& out) : out_(out) { out_.clear(); }

  void add(char32_t point) {
    const BertClass kind = bert_class(point);
    if (kind == BertClass::mark) return;
    if (kind != BertClass::starter_mark && point >= kOrdered[0].point &&
        combining_class(point) != 0) {
      out_ += point;
      return;
    }
    order();
    if (kind != BertClass::starter_mark) out_ += point;
    begin_ = out_.size();
  }

  void add_hangul(char32_t syllable) {  // 3.12: leading consonant, vowel, perhaps a trailing one
    const char32_t index = syllable - 0xAC00;
    add(0x1100 + index / 588);
    add(0x1161 + index % 588 / 28);
    if (index % 28 != 0) add(0x11A7 + index % 28);
  }

  void order() {
    if (out_.size() > begin_ + 1)
      std::stable_sort(
          out_.begin() + static_cast<std::ptrdiff_t>(begin_), out_.end(),
          [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }

 private:
  std::u32string& out_;
  std::size_t begin_ = 0;  // of the characters of other classes at the end
};

}  // namespace

bool bert_ends_cased(std::u32string_view text, bool so_far) {
  for (; !text.empty(); text.remove_suffix(1))
    if (!is_ignorable(text.back())) return is_cased(text.back());
  return so_far;
}

void bert_lower(std::u32string_view word, bool after_cased, std::u32string& out) {
  Decomposition decomposition(out);
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char32_t point = word[i];
    if (point == kSigma) {
      decomposition.add(is_final(word, i, after_cased) ? kFinalSigma : kSmallSigma);
    } else if (!bert_mapped(point)) {
      decomposition.add(point);
    } else if (point >= 0xAC00 && point <= 0xD7A3) {
      decomposition.add_hangul(point);
    } else {
      const std::span<const Mapping> all(kMapped, kMappedCount);
      const auto mapping = std::ranges::lower_bound(all, point, {}, &Mapping::point);
      for (std::size_t k = 0; k < mapping->size; ++k) decomposition.add(kPool[mapping->begin + k]);
    }
  }
  decomposition.order();
}

}  // namespace mt
