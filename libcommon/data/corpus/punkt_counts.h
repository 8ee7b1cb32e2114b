// PunktCounts: all that Punkt learns of a text (punkt_trainer.h): how often each word occurs, in
// what contexts, and what follows those with a period.  nltk goes over all words twice, as it must
// know abbreviations before it can tell where a sentence may begin; here what depends on them is
// counted for each pair of a word with a period and the one behind it, so that a text is read once
// and its parts can be counted apart.  Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/corpus/punkt_words.h"
#include "text/string_map.h"

namespace mt {

class PunktCounts {
 public:
  // What a word says of itself, without a knowledge of abbreviations.
  enum class Kind : char {
    inside,  // has no period at its end
    mark,    // ? or !
    stop,    // a period, or several with spaces between them
    dots,    // an ellipsis
    number,  // with a period at its end, as the next two
    initial,
    period,
  };
  struct Word {
    std::int64_t count = 0;
    std::uint32_t contexts = 0;  // PunktContext, as far as no abbreviation makes a difference
  };
  struct Pair {
    std::int64_t count = 0, letters = 0;  // letters: those whose second word has nothing else
    bool upper = false, lower = false;    // how some of the second words begin
  };

  void add_line(std::string_view line);  // UTF-8; a blank one ends a paragraph
  void add_text(std::string_view text);  // of several lines, and then a blank one
  // Counts what stands behind this text.
  void append(const PunktCounts& next);
  void finish();  // no text follows, and none will be put before

  std::int64_t words() const { return count_; }
  // Words by their type with the kind as a last character.
  const StringMap<Word>& entries() const { return words_; }
  static Kind kind_of(const std::string& entry) { return static_cast<Kind>(entry.back()); }
  static std::string type_of(const std::string& entry) { return entry.substr(0, entry.size() - 1); }
  // Calls body(first, second, pair), the first two being numbers of entries, for all pairs whose
  // first word ends with a period and is no ellipsis.
  template <class Body>
  void for_each_pair(Body&& body) const {
    for (const auto& [key, pair] : pairs_)
      body(static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key), pair);
  }

 private:
  struct Seen {  // a word in a text
    std::uint32_t entry = 0;
    bool lower = false, upper = false;  // how it begins
    bool letters = false;               // it has nothing else
    bool begins_line = false, begins_paragraph = false;
  };
  void add(const Seen& seen);
  void follow(const Seen& seen);  // it stands behind last_
  void place(const Seen& seen, PunktPlace place);

  StringMap<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::int64_t count_ = 0;
  std::optional<Seen> first_;  // whose context is known when the text before is
  std::uint32_t last_ = 0;     // the entry of the last word, if there is one
  bool blank_ = false;         // a blank line is behind it
  std::u32string line_;        // memory for one line
};

}  // namespace mt
