// The files by which transformers knows a tokenizer that lies in GPT-2's, BERT's or SentencePiece's
// own files: tokenizer.json, tokenizer_config.json and special_tokens_map.json.
#pragma once

#include <string>
#include <vector>

#include "formats/model_source.h"

namespace mt {

// A tokenizer's special tokens as transformers has them: GPT-2's one token begins a text, too.
SpecialTokens special_tokens(const Tokenizer& tokenizer);

// Those that are not among the companions: none for a tokenizer that is not read, and of
// tokenizer.json only one that gives the ids that the tokenizer gives, but for special tokens that
// it alone finds in a text, and for what a type of Megatron's does not put around one.
std::vector<Companion> missing_tokenizer_files(const std::vector<Companion>& companions,
                                               const Tokenizer& tokenizer, std::int64_t positions);

// The tokenizer.json that says by itself all that the tokenizer does, of the companions that it was
// made of; empty if none does.
std::string whole_tokenizer_json(const std::vector<Companion>& companions,
                                 const Tokenizer& tokenizer);

}  // namespace mt
