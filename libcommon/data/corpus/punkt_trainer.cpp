#include "data/corpus/punkt_trainer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/utf8.h"

namespace mt {
namespace {

constexpr double kAbbreviation = 0.3;          // ABBREV
constexpr std::int64_t kRareBelow = 5;         // ABBREV_BACKOFF
constexpr double kCollocation = 7.88;          // COLLOCATION
constexpr double kStarter = 30;                // SENT_STARTER
constexpr std::int64_t kCollocationAbove = 1;  // MIN_COLLOC_FREQ

using Kind = PunktCounts::Kind;

// Whether the type is more than punctuation.
bool has_letter(const std::string& type) {
  for (std::size_t at = 0; at < type.size();)
    if (is_letter_like(next_code_point(type, at))) return true;
  return false;
}

std::string without_last_point(std::string text) {
  while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
  return text;
}

double as_double(std::int64_t count) { return static_cast<double>(count); }

// How much likelier it is that a word goes with its period than that the two meet by chance;
// `with`: how often they do, of `all` times that the word occurs.  Dunning's log-likelihood ratio
// as Kiss and Strunk modify it.
double abbreviation_likelihood(std::int64_t all, std::int64_t periods, std::int64_t with,
                               std::int64_t words) {
  const double p1 = as_double(periods) / as_double(words), p2 = 0.99;
  const double without = as_double(all - with);
  const double by_chance =
      as_double(with) * std::log(p1 + 1e-8) + without * std::log(1.0 - p1 + 1e-8);
  const double together = as_double(with) * std::log(p2) + without * std::log(1.0 - p2);
  return -2.0 * (by_chance - together);
}

// a log(p) + b log(1 - p); 0 where a logarithm is none.
double log_likelihood(double a, double b, double p) {
  if (p <= 0 || 1.0 - p <= 0) return 0;
  return a * std::log(p) + b * std::log(1.0 - p);
}

// How much likelier it is that the second word goes with the first, which it follows `both` times,
// than that the two meet by chance: Dunning's own ratio.
double pair_likelihood(std::int64_t first, std::int64_t second, std::int64_t both,
                       std::int64_t words) {
  const double p = as_double(second) / as_double(words);
  const double p1 = as_double(both) / as_double(first);
  const double p2 = words == first ? 1 : as_double(second - both) / as_double(words - first);
  const double alone = as_double(first - both), other = as_double(second - both);
  const double neither = as_double(words - first - second + both);
  const double sum1 = log_likelihood(as_double(both), alone, p);
  const double sum2 = log_likelihood(other, neither, p);
  const double sum3 = first == both ? 0 : log_likelihood(as_double(both), alone, p1);
  const double sum4 = second == both ? 0 : log_likelihood(other, neither, p2);
  return -2.0 * (sum1 + sum2 - sum3 - sum4);
}

class Training {
 public:
  explicit Training(const PunktCounts& counts) : counts_(counts) {
    for (const auto& [entry, word] : counts.entries()) {
      const Kind kind = PunktCounts::kind_of(entry);
      const std::string type = PunktCounts::type_of(entry);
      types_[type] += word.count;
      if (kind != Kind::inside && kind != Kind::mark) periods_ += word.count;
      entries_.push_back({type, kind});
    }
  }

  PunktParameters run(CollocationKinds kinds) {
    find_abbreviations();
    mark_entries();
    count_contexts();
    PairCounts pairs;
    StringMap<std::int64_t> beginnings;
    std::set<std::string> rare;
    counts_.for_each_pair([&](std::uint32_t i, std::uint32_t j, const PunktCounts::Pair& pair) {
      const Entry &first = entries_[i], &second = entries_[j];
      const bool ordinal = first.kind == Kind::number || first.kind == Kind::initial;
      if (first.ends && is_rare(first, second, pair.lower)) rare.insert(first.stem());
      if (first.ends && !ordinal && pair.letters > 0) beginnings[second.type] += pair.letters;
      if (((first.ends && ordinal) || kinds == CollocationKinds::all ||
           (kinds == CollocationKinds::abbreviations && first.abbreviation)) &&
          has_letter(first.type) && has_letter(second.type))
        pairs[{first.stem(), second.without_final_period()}] += pair.count;
    });
    learned_.abbreviations.merge(rare);
    find_starters(beginnings);
    find_collocations(pairs);
    return std::move(learned_);
  }

 private:
  struct Entry {
    std::string type;
    Kind kind;
    bool abbreviation = false, ends = false;  // a sentence, as far as the word itself says

    std::string stem() const { return type_without_period(type); }
    std::string without_final_period() const { return ends ? stem() : type; }
  };
  using PairCounts = std::map<std::pair<std::string, std::string>, std::int64_t>;

  std::int64_t count_of(const std::string& type) const {
    const auto found = types_.find(type);
    return found == types_.end() ? 0 : found->second;
  }
  std::int64_t with_and_without_period(const std::string& type) const {
    return count_of(type) + count_of(type + ".");
  }

  void find_abbreviations() {
    for (const auto& [type, with] : types_) {
      if (!type.ends_with('.') || !has_letter(type)) continue;
      const std::string stem = type.substr(0, type.size() - 1);
      const std::int64_t points =
          std::ranges::count_if(stem, [](char c) { return (c & 0xC0) != 0x80; });
      const std::int64_t periods = std::ranges::count(stem, '.') + 1;
      const std::int64_t others = points - periods + 1;
      const std::int64_t without = count_of(stem);
      const double score = abbreviation_likelihood(with + without, periods_, with, words()) *
                           std::exp(as_double(-others)) * as_double(periods) *
                           std::pow(as_double(others), as_double(-without));
      if (score >= kAbbreviation) learned_.abbreviations.insert(stem);
    }
  }

  void mark_entries() {
    for (Entry& entry : entries_) {
      const Kind kind = entry.kind;
      if (kind == Kind::initial || kind == Kind::period) {
        const std::string stem = entry.stem();
        entry.abbreviation = learned_.abbreviations.contains(stem) ||
                             learned_.abbreviations.contains(stem.substr(stem.rfind('-') + 1));
      }
      entry.ends = kind != Kind::inside && kind != Kind::dots && !entry.abbreviation;
    }
  }

  void count_contexts() {
    const auto add = [&](const Entry& entry, std::uint32_t bits) {
      if (bits != 0) learned_.contexts[entry.without_final_period()] |= bits;
    };
    for (std::size_t i = 0; i < entries_.size(); ++i)
      add(entries_[i], counts_.entries().begin()[i].second.contexts);
    counts_.for_each_pair([&](std::uint32_t i, std::uint32_t j, const PunktCounts::Pair& pair) {
      if (entries_[i].kind != Kind::period) return;
      const PunktPlace place = entries_[i].ends ? PunktPlace::begin : PunktPlace::unknown;
      add(entries_[j], context_of(place, pair.upper, pair.lower));
    });
  }

  // A word that is too rare to be found by its counts is an abbreviation if what follows goes on
  // with the sentence.
  bool is_rare(const Entry& first, const Entry& second, bool lower) const {
    const std::string type = first.without_final_period();
    if (count_of(type) + count_of(without_last_point(type)) >= kRareBelow) return false;
    if (std::string_view(",:;").find(second.type[0]) != std::string_view::npos) return true;
    if (!lower) return false;
    const std::uint32_t contexts = learned_.contexts.at(second.without_final_period());
    return (contexts & kBeginUpper) != 0 && (contexts & kMiddleUpper) == 0;
  }

  void find_starters(const StringMap<std::int64_t>& beginnings) {
    std::int64_t ends = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].ends) ends += counts_.entries().begin()[i].second.count;
    for (const auto& [type, at_end] : beginnings) {
      const std::int64_t count = with_and_without_period(type);
      if (pair_likelihood(ends, count, at_end, words()) >= kStarter &&
          as_double(words()) / as_double(ends) > as_double(count) / as_double(at_end))
        learned_.starters.insert(type);
    }
  }

  void find_collocations(const PairCounts& pairs) {
    for (const auto& [types, both] : pairs) {
      if (learned_.starters.contains(types.second)) continue;
      const std::int64_t first = with_and_without_period(types.first);
      const std::int64_t second = with_and_without_period(types.second);
      if (both <= kCollocationAbove || both > std::min(first, second)) continue;
      if (pair_likelihood(first, second, both, words()) >= kCollocation &&
          as_double(words()) / as_double(first) > as_double(second) / as_double(both))
        learned_.collocations.insert(types);
    }
  }

  std::int64_t words() const { return counts_.words(); }

  const PunktCounts& counts_;
  std::vector<Entry> entries_;  // in the order of the counts'
  StringMap<std::int64_t> types_;
  std::int64_t periods_ = 0;  // words that end with one
  PunktParameters learned_;
};

}  // namespace

PunktParameters train_punkt(const PunktCounts& counts, CollocationKinds kinds) {
  return Training(counts).run(kinds);
}

}  // namespace mt
