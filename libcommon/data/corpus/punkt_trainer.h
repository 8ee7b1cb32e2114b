// Training of Punkt: which words are abbreviations, which begin sentences, and which stand together
// across a period, by their counts in a text.  Algorithm: Kiss and Strunk (punkt_model.h), with all
// of nltk 3.9.1's ways: what train_punkt() learns of a text is what PunktTrainer().train(text)
// learns, whose names the numbers below have.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "data/corpus/punkt_counts.h"

namespace mt {

struct PunktParameters {
  std::set<std::string> abbreviations, starters;
  std::set<std::pair<std::string, std::string>> collocations;
  std::map<std::string, std::uint32_t> contexts;  // of each type, the sum of PunktContext
};

// Which words with a period may be the first of a collocation, besides numbers and initials.
enum class CollocationKinds { numbers, abbreviations, all };

// `counts` are finished.
PunktParameters train_punkt(const PunktCounts& counts,
                            CollocationKinds kinds = CollocationKinds::numbers);

}  // namespace mt
