// What Mistral's tekken.json says beside its ranks (text/bpe/rank_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct TekkenConfig {
  std::string pattern = {};                // empty: none is named
  std::int64_t vocab_size = 0;             // of ranks and special tokens; 0: all that there are
  std::vector<std::string> specials = {};  // by their ids, which come before those of the ranks
};

// Nothing for a file that is no JSON object.
std::optional<TekkenConfig> tekken_config(std::string_view content, const std::string& path);

}  // namespace mt
