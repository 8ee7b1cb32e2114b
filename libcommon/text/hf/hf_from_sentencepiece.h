// A tokenizer.json of a SentencePiece model, as the class of the folder makes it: LlamaTokenizer,
// GemmaTokenizer, T5Tokenizer, XLMRobertaTokenizer and its like, AlbertTokenizer, XLNetTokenizer,
// DebertaV2Tokenizer, or any other where its pieces are its ids.
#pragma once

#include <string>
#include <string_view>

#include "text/hf/hf_config.h"

namespace mt {

// The class of a model of which nothing says it.
std::string_view hf_class_of_sentencepiece(const HfConfigFile& file);

std::string hf_json_from_sentencepiece(const HfConfigFile& file, const HfConfig& config,
                                       int version);

}  // namespace mt
