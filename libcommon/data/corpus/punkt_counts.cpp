#include "data/corpus/punkt_counts.h"

#include <algorithm>

#include "base/utf8.h"

namespace mt {
namespace {

using Kind = PunktCounts::Kind;

Kind kind_of_word(const PunktWord& word) {
  if (word.is_end_mark()) return word.period_final() ? Kind::stop : Kind::mark;
  if (word.is_ellipsis()) return Kind::dots;
  if (!word.period_final()) return Kind::inside;
  if (word.is_number()) return Kind::number;
  if (word.is_initial()) return Kind::initial;
  return is_python_space(word.word[word.word.size() - 2]) ? Kind::stop : Kind::period;
}

// Where in a sentence a word stands behind one of this kind, other than Kind::period.
PunktPlace place_behind(Kind kind) {
  if (kind == Kind::inside) return PunktPlace::middle;
  return kind == Kind::mark || kind == Kind::stop ? PunktPlace::begin : PunktPlace::unknown;
}

bool ends_with_period(Kind kind) {
  return kind != Kind::inside && kind != Kind::mark && kind != Kind::dots;
}

std::uint64_t key_of(std::uint32_t first, std::uint32_t second) {
  return std::uint64_t{first} << 32 | second;
}

}  // namespace

void PunktCounts::add_line(std::string_view line) {
  line_.clear();
  for (std::size_t at = 0; at < line.size();) line_.push_back(next_code_point(line, at));
  const std::vector<PunktWord> words = punkt_words(line_);
  if (words.empty()) {
    blank_ = true;
    return;
  }
  std::string entry;
  for (const PunktWord& word : words) {
    entry.assign(word.type).push_back(static_cast<char>(kind_of_word(word)));
    const auto known = words_.emplace(entry, Word()).first;
    ++known->second.count;
    add({.entry = static_cast<std::uint32_t>(known - words_.begin()),
         .lower = is_lower(word.word[0]),
         .upper = is_upper(word.word[0]),
         .letters = std::ranges::all_of(word.word, is_letter_like),
         .begins_line = &word == words.data()});
  }
}

void PunktCounts::add_text(std::string_view text) {
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_line(text.substr(0, end));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  blank_ = true;
}

void PunktCounts::append(const PunktCounts& next) {
  std::vector<std::uint32_t> entries;
  for (const auto& [entry, word] : next.words_) {
    const auto [known, is_new] = words_.emplace(entry, word);
    entries.push_back(static_cast<std::uint32_t>(known - words_.begin()));
    if (is_new) continue;
    known->second.count += word.count;
    known->second.contexts |= word.contexts;
  }
  for (const auto& [key, pair] : next.pairs_) {
    Pair& known = pairs_[key_of(entries[key >> 32], entries[static_cast<std::uint32_t>(key)])];
    known.count += pair.count;
    known.letters += pair.letters;
    known.upper |= pair.upper;
    known.lower |= pair.lower;
  }
  if (!next.first_) {
    blank_ |= next.blank_;
    return;
  }
  Seen first = *next.first_;
  first.entry = entries[first.entry];
  add(first);
  count_ += next.count_ - 1;
  last_ = entries[next.last_];
  blank_ = next.blank_;
}

void PunktCounts::add(const Seen& seen) {
  Seen here = seen;
  here.begins_paragraph |= here.begins_line && blank_;
  if (first_)
    follow(here);
  else
    first_ = here;
  ++count_;
  last_ = here.entry;
  blank_ = false;
}

void PunktCounts::follow(const Seen& seen) {
  const Kind before = kind_of(words_.begin()[last_].first);
  if (ends_with_period(before)) {
    Pair& pair = pairs_[key_of(last_, seen.entry)];
    ++pair.count;
    pair.letters += seen.letters ? 1 : 0;
    pair.upper |= seen.upper;
    pair.lower |= seen.lower;
  }
  if (before != Kind::period) place(seen, place_behind(before));
}

void PunktCounts::place(const Seen& seen, PunktPlace place) {
  if (seen.begins_paragraph && place != PunktPlace::unknown) place = PunktPlace::begin;
  if (seen.begins_line && place == PunktPlace::middle) place = PunktPlace::unknown;
  words_.begin()[seen.entry].second.contexts |= context_of(place, seen.upper, seen.lower);
}

void PunktCounts::finish() {
  if (first_) place(*first_, PunktPlace::middle);
}

}  // namespace mt
