// dedup: JSON lines each of whose texts is there once.  A text goes if it is equal to an earlier
// one or like one that stays; not if it is only like one that went, so that a chain of texts, each
// like the one before, loses no more than it must.  Texts that share a run of words with an
// evaluation set go too, so that nothing is learnt of what will be asked.  Memory grows by
// about 1.3 KiB a kept line, 40 bytes without similarity.
#pragma once

#include <string>
#include <vector>

#include "data/corpus/line_filter.h"

namespace mt {

struct DedupOptions {
  FilterOptions lines;
  double similarity = 0.7;           // of the runs of five words; 1: only equal texts
  std::vector<std::string> against;  // JSON lines with the same key
  std::int64_t ngram = 13;           // words; shorter texts of `against` are passed over
  void add_to(CommandLine& cl);
};

FilterSummary dedup_lines(const DedupOptions& options, const RunContext& context);

}  // namespace mt
