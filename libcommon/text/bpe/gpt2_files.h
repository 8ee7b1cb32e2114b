// Reading the two files of GPT-2's BPE; their format stands in text/bpe/gpt2_bpe.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/bpe/byte_bpe.h"
#include "text/string_map.h"

namespace mt {

using TokenIds = StringMap<std::int32_t>;

// Tokens as the file writes them; the ids are 0 to size() - 1, but for `holes` of them, which may
// be nobody's.  `path` is for errors.
TokenIds parse_vocabulary(std::string_view json, const std::string& path, std::int64_t holes = 0);

// Merges of the tokens `ids`; a byte that is no token has the id 0.
ByteBpe::Rules parse_merges(std::string_view text, const std::string& path, const TokenIds& ids);

}  // namespace mt
