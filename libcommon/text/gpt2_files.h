// Reading the two files of GPT-2's BPE; their format stands in text/gpt2_bpe.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_merges.h"
#include "text/string_map.h"

namespace mt {

using TokenIds = StringMap<std::int32_t>;

// Tokens as the file writes them; the ids are 0 to size() - 1.  `path` is for errors.
TokenIds parse_vocabulary(std::string_view json, const std::string& path);

struct MergeRules {
  BpeMerges merges;
  std::vector<std::int32_t>
      symbol_ids;  // the token id of each symbol; 0 for bytes that are no token
};
MergeRules parse_merges(std::string_view text, const std::string& path, const TokenIds& ids);

}  // namespace mt
