// clean: JSON lines without what a corpus from the web should not hold, after the recipes for
// OpenWebText and Wikipedia that Megatron-LM describes (tools/openwebtext): texts repaired, pages
// of listed hosts, texts in other scripts and short texts dropped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus/line_filter.h"

namespace mt {

struct CleanOptions {
  FilterOptions lines;
  bool repair = false;  // text_repair.h
  std::int64_t min_words = 0, min_characters = 0;
  std::vector<std::string> scripts;           // "Latin": at least half of the letters are of these
  std::string url_key = "url", blocked_urls;  // a file: hosts, or ".jpg" for what paths end with
  void add_to(CommandLine& cl);
};

FilterSummary clean_lines(const CleanOptions& options, const RunContext& context);

}  // namespace mt
