// The files by which transformers knows a tokenizer that lies in GPT-2's or SentencePiece's own
// files: tokenizer_config.json, special_tokens_map.json, and of GPT-2's tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "formats/model_source.h"

namespace mt {

// Those that are not among the companions: none for a tokenizer that is not read, and of
// tokenizer.json only one that gives the ids that the tokenizer gives.
std::vector<Companion> missing_tokenizer_files(const std::vector<Companion>& companions,
                                               const Tokenizer& tokenizer, std::int64_t positions);

}  // namespace mt
