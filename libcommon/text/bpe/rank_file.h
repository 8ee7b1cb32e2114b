// Reading the rank files of text/bpe/tik_tokenizer.h, and the merges that ranks stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/byte_bpe.h"

namespace mt {

// Does a file begin as tiktoken writes ranks, whatever its name is?
bool is_rank_file(std::string_view content);

// The bytes of the first `limit` ranks.  `path` is for errors; throws Exit::bad_data for a
// malformed file, a token that is there twice, or a single byte that is none of those read.
std::vector<std::string> parse_ranks(std::string_view content, const std::string& path,
                                     std::size_t limit);

// Symbols are ranks; the id of rank r is first_id + r.
//
// Merging the lowest rank first, a token can only come about as it does when its bytes stand alone:
// whatever is merged inside of it before does not depend on what is around.  So one merge a token
// says all, that of the two symbols which are left last when the shorter tokens' merges are applied
// to its bytes; a token that does not come down to two is found only as a whole piece.
ByteBpe::Rules rank_rules(const std::vector<std::string>& tokens, std::int32_t first_id);

}  // namespace mt
